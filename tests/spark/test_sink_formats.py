"""Columns as Avro through the registry and as JSON, read back by Confluent's own deserializer and by parsers."""

import json
from base64 import b64encode
from datetime import UTC, datetime, time
from decimal import Decimal
from traceback import format_exception
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql.pandas.types import from_arrow_schema

from millstream.arrow.avro.encoding import AvroMismatch
from millstream.arrow.avro.field import SchemaUnavailable
from millstream.registry.client import RegistryClient
from millstream.spark.sink.task_writer import write_rows
from millstream.spark.sink.write_plan import plan_write
from tests.brokers import Broker
from tests.spark.read_back import read_with_confluent
from tests.topics import create_topic, fresh_name
from tests.unit.registry.scripted_server import scripted_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER = {
    "type": "record",
    "name": "user",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "level", "type": "int", "default": 1},
    ],
}


def save(broker: Broker, rows: pa.Table, topic: str, registry_url: str, **options: str) -> None:
    """Write rows with `value.format` = avro as one task; `value_subject` stands for `value.subject`."""
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "schema.registry.url": registry_url,
        "value.format": "avro",
    }
    plan = plan_write(given | {name.replace("_", "."): value for name, value in options.items()}, from_arrow_schema(rows.schema))
    write_rows(plan, iter(rows.to_batches()))


def deserialized(broker: Broker, topic: str, registry_url: str) -> list[Any]:
    """The values of a topic as Confluent's deserializer reads them."""
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry_url}) as client:
        deserialize = AvroDeserializer(client)
        return [deserialize(message.value, context) for message in read_with_confluent(broker, topic)]


def test_spark_writes_typed_columns_that_others_read_and_reads_them_itself(
    spark: "SparkSession", broker: Broker, registry_url: str
) -> None:
    topic = create_topic(broker)
    rows = spark.sql(
        "SELECT id, concat('user-', id) AS name, named_struct('street', 'x', 'number', CAST(id AS INT)) AS address,"
        " array(1.5D, null) AS scores, map('a', id) AS counts, CAST(12.34 AS DECIMAL(10, 2)) AS price,"
        " TIMESTAMP '2026-11-15 09:30:00Z' AS at FROM range(3)"
    ).coalesce(1)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": registry_url, "value.format": "avro"}
    rows.write.format("millstream").mode("append").options(**options).option("topic", topic).save()
    assert deserialized(broker, topic, registry_url) == [
        {
            "id": number,
            "name": f"user-{number}",
            "address": {"street": "x", "number": number},
            "scores": [1.5, None],
            "counts": {"a": number},
            "price": Decimal("12.34"),
            "at": datetime(2026, 11, 15, 9, 30, tzinfo=UTC),
        }
        for number in range(3)
    ]
    again = spark.read.format("millstream").options(**options).option("subscribe", topic).load().select("value.*")
    assert sorted(again.collect()) == sorted(rows.collect())


def test_the_latest_schema_of_the_subject_is_taken(broker: Broker, registry: RegistryClient, registry_url: str) -> None:
    topic = create_topic(broker)
    registered = registry.register(f"{topic}-value", json.dumps(USER))
    save(broker, pa.table({"id": [1, 2], "name": ["ann", None]}), topic, registry_url)
    assert deserialized(broker, topic, registry_url) == [{"id": 1, "name": "ann", "level": 1}, {"id": 2, "name": None, "level": 1}]
    first = read_with_confluent(broker, topic)[0].value or b""
    assert first[:5] == b"\x00" + registered.schema_id.to_bytes(4, "big")
    assert registry.versions(f"{topic}-value") == [1]


def test_a_derived_schema_is_registered_and_evolves(broker: Broker, registry: RegistryClient, registry_url: str) -> None:
    topic = create_topic(broker)
    save(broker, pa.table({"id": [1]}), topic, registry_url)
    save(broker, pa.table({"id": [2], "name": ["bob"]}), topic, registry_url, use_latest_version="false")
    assert registry.versions(f"{topic}-value") == [1, 2]
    assert deserialized(broker, topic, registry_url) == [{"id": 1}, {"id": 2, "name": "bob"}]


def test_a_column_that_the_schema_does_not_know_is_an_error(broker: Broker, registry: RegistryClient, registry_url: str) -> None:
    topic = create_topic(broker)
    registry.register(f"{topic}-value", json.dumps(USER))
    with pytest.raises(AvroMismatch, match="value: the schema has no field 'mail', it has id, name, level"):
        save(broker, pa.table({"id": [1], "mail": ["x"]}), topic, registry_url)


def test_a_schema_that_may_not_follow_is_refused_with_the_reason(broker: Broker, registry_url: str) -> None:
    topic = create_topic(broker)
    save(broker, pa.table({"id": [1]}), topic, registry_url)
    with pytest.raises(SchemaUnavailable, match=f"of subject '{topic}-value', the registry refused it"):
        save(broker, pa.table({"id": ["text"]}), topic, registry_url, use_latest_version="false")


def test_nothing_is_registered_when_that_is_switched_off(broker: Broker, registry: RegistryClient, registry_url: str) -> None:
    topic = create_topic(broker)
    with pytest.raises(SchemaUnavailable, match=r"auto.register.schemas is false, so it has to be registered before"):
        save(broker, pa.table({"id": [1]}), topic, registry_url, auto_register_schemas="false")
    registered = registry.register(f"{topic}-value", json.dumps(USER))
    save(broker, pa.table({"id": [1]}), topic, registry_url, auto_register_schemas="false", value_schema=json.dumps(USER))
    assert (read_with_confluent(broker, topic)[0].value or b"")[1:5] == registered.schema_id.to_bytes(4, "big")


def test_keys_have_schemas_of_their_own_and_nulls_stay_null(broker: Broker, registry: RegistryClient, registry_url: str) -> None:
    topic = create_topic(broker)
    value = pa.array([{"id": 7}, None], type=pa.struct([("id", pa.int64())]))
    options = {"key_format": "avro", "key_subject": f"keys-of-{topic}"}
    save(broker, pa.table({"key": [1, None], "value": value}), topic, registry_url, **options)
    key_id = registry.latest(f"keys-of-{topic}").schema_id
    assert [message.key for message in read_with_confluent(broker, topic)] == [b"\x00" + key_id.to_bytes(4, "big") + b"\x02", None]
    assert deserialized(broker, topic, registry_url) == [{"id": 7}, None]


def read_again(spark: "SparkSession", broker: Broker, topic: str, registry_url: str) -> list[Any]:
    """The values of a topic as our own source reads them."""
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": registry_url, "value.format": "avro"}
    rows = spark.read.format("millstream").options(**options).option("subscribe", topic).load().select("value").collect()
    return [bytes(value) if isinstance(value, bytearray) else value for (value,) in rows]


def test_bytes_that_are_a_whole_message_have_no_length(spark: "SparkSession", broker: Broker, registry_url: str) -> None:
    topic = create_topic(broker)
    rows: list[bytes | None] = [b"\x02ab", b"x" * 300, None]
    save(broker, pa.table({"value": pa.array(rows, type=pa.binary())}), topic, registry_url)
    assert deserialized(broker, topic, registry_url) == rows
    save(broker, pa.table({"value": pa.array([b""], type=pa.binary())}), topic, registry_url)
    assert [message.value and message.value[5:] for message in read_with_confluent(broker, topic)] == [*rows, b""]
    assert read_again(spark, broker, topic, registry_url) == [*rows, b""]


def test_a_decimal_that_is_a_whole_message_has_no_length(spark: "SparkSession", broker: Broker, registry_url: str) -> None:
    topic = create_topic(broker)
    save(broker, pa.table({"value": [Decimal("12.34"), Decimal("-0.01")]}), topic, registry_url)
    assert deserialized(broker, topic, registry_url) == [(1234).to_bytes(2, "big"), b"\xff"]
    assert read_again(spark, broker, topic, registry_url) == [Decimal("12.34"), Decimal("-0.01")]


@pytest.mark.parametrize("stem", ["2026-orders", "orders.eu", "_x"])
def test_every_topic_can_have_a_derived_schema(broker: Broker, registry: RegistryClient, registry_url: str, stem: str) -> None:
    topic = create_topic(broker, name=fresh_name(stem))
    inner = pa.struct([("x", pa.int64())])
    columns = {"a": pa.array([{"b": {"x": 1}}], type=pa.struct([("b", inner)])), "a_b": pa.array([{"x": 2}], type=inner)}
    save(broker, pa.table(columns), topic, registry_url)
    assert deserialized(broker, topic, registry_url) == [{"a": {"b": {"x": 1}}, "a_b": {"x": 2}}]
    save(broker, pa.table(columns), topic, registry_url, use_latest_version="false")
    assert registry.versions(f"{topic}-value") == [1]


def test_a_time_of_day_that_was_read_can_be_written(broker: Broker, registry: RegistryClient, registry_url: str) -> None:
    topic = create_topic(broker)
    schema = {"type": "record", "name": "r", "fields": [{"name": "at", "type": {"type": "int", "logicalType": "time-millis"}}]}
    registry.register(f"{topic}-value", json.dumps(schema))
    save(broker, pa.table({"at": pa.array([3_600_000], type=pa.int32())}), topic, registry_url)
    save(broker, pa.table({"at": pa.array([3_600_000_000_000], type=pa.time64("ns"))}), topic, registry_url)
    assert deserialized(broker, topic, registry_url) == [{"at": time(1)}, {"at": time(1)}]


def test_a_registry_gets_the_credentials_of_its_options_and_no_other_does(broker: Broker) -> None:
    secret = "se/c#r?e,t%25"
    rows, credentials = pa.table({"id": [1]}), {"schema_registry_basic_auth_user_info": f"ann:{secret}"}
    with scripted_server(lambda _asked: (401, {"error_code": 40101, "message": "who are you?"})) as server:
        with pytest.raises(Exception, match="who are you") as refused:
            save(broker, rows, create_topic(broker), server.url, **credentials)
        theirs = {"url": server.url, "basic.auth.user.info": f"ann:{secret}"}
        with SchemaRegistryClient(theirs) as confluent, pytest.raises(SchemaRegistryError):
            confluent.get_subjects()
    sent = {asked.headers["authorization"] for asked in server.asked}
    assert sent == {"Basic " + b64encode(f"ann:{secret}".encode()).decode()}
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as away:
        save(broker, rows, create_topic(broker), "http://127.0.0.1:1", **credentials)
    for raised in (refused, away):
        reported = "".join(format_exception(raised.value))
        assert not [hidden for hidden in (secret, "ann:", *sent) if hidden in reported]


def test_each_topic_of_a_column_has_its_own_subject(broker: Broker, registry: RegistryClient, registry_url: str) -> None:
    first, second = create_topic(broker), create_topic(broker)
    registry.register(f"{first}-value", json.dumps(USER))
    rows = pa.table({"topic": [first, second], "id": [1, 2]})
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": registry_url, "value.format": "avro"}
    write_rows(plan_write(given, from_arrow_schema(rows.schema)), iter(rows.to_batches()))
    assert deserialized(broker, first, registry_url) == [{"id": 1, "name": None, "level": 1}]
    assert deserialized(broker, second, registry_url) == [{"id": 2}]


def test_columns_or_one_column_become_json(broker: Broker, registry_url: str) -> None:
    topic = create_topic(broker)
    save(broker, pa.table({"id": [1], "name": ["ü"]}), topic, registry_url, value_format="json")
    save(broker, pa.table({"value": pa.array([[1, None], None])}), topic, registry_url, value_format="json")
    assert [message.value for message in read_with_confluent(broker, topic)] == ['{"id":1,"name":"ü"}'.encode(), b"[1,null]", None]


def test_a_registry_that_is_away_is_named(broker: Broker) -> None:
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        save(broker, pa.table({"id": [1]}), create_topic(broker), "http://127.0.0.1:1")
