"""Avro through the registry gives typed columns: one schema per query, whatever the messages were written with."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.registry.client import RegistryClient
from millstream.registry.model.records import Reference
from tests.brokers import Broker
from tests.spark.avro_messages import message, record, register
from tests.spark.reading import frame, stream
from tests.spark.topic_content import Message, write
from tests.spark.traffic import Traffic
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until

EVERYTHING = record(
    flag="boolean",
    small="int",
    large="long",
    real="float",
    double="double",
    raw="bytes",
    text="string",
    nothing=["null", "string"],
    list={"type": "array", "items": ["null", "int"]},
    map={"type": "map", "values": "double"},
    inner={"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]},
    level={"type": "enum", "name": "level", "symbols": ["LOW", "HIGH"]},
    digest={"type": "fixed", "name": "digest", "size": 4},
    price={"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
    day={"type": "int", "logicalType": "date"},
    millis={"type": "long", "logicalType": "timestamp-millis"},
    micros={"type": "long", "logicalType": "timestamp-micros"},
    either=["null", "int", "string"],
    number=["int", "long"],
)
NOON = datetime(2026, 11, 15, 12, 0, 0, 123_000, UTC)
VALUE: dict[str, Any] = {
    "flag": True, "small": -5, "large": 1 << 40, "real": 0.5, "double": 1e300, "raw": b"\x00\xff", "text": "héllo", "nothing": None,
    "list": [1, None, 3], "map": {"a": 1.5}, "inner": {"x": 9}, "level": "HIGH", "digest": b"abcd",
    "price": Decimal("-12345678901234567.89"), "day": date(2026, 11, 15), "millis": NOON, "micros": NOON, "either": "text", "number": 7,
}  # fmt: skip


def options(registry_url: str, **more: object) -> dict[str, Any]:
    return {"value__format": "avro", "schema__registry__url": registry_url} | more


def test_every_type_of_avro_has_its_column(
    spark: SparkSession, broker: Broker, registry: RegistryClient, registry_url: str, topic: str
) -> None:
    schema_id = register(registry, f"{topic}-value", EVERYTHING)
    write(broker, topic, [Message(message(schema_id, EVERYTHING, VALUE)), Message(None), Message(message(schema_id, EVERYTHING, VALUE))])
    data = frame(spark, broker, topic, **options(registry_url))
    assert data.schema["value"].dataType.simpleString() == (
        "struct<flag:boolean,small:int,large:bigint,real:float,double:double,raw:binary,text:string,nothing:string,list:array<int>,"
        "map:map<string,double>,inner:struct<x:int>,level:string,digest:binary,price:decimal(20,2),day:date,millis:timestamp,"
        "micros:timestamp,either:struct<member0:int,member1:string>,number:bigint>"
    )
    rows = [row["value"] for row in data.orderBy("offset").collect()]
    assert rows[1] is None
    for row in (rows[0], rows[2]):
        found = row.asDict(recursive=True)
        expected = VALUE | {"either": {"member0": None, "member1": "text"}}
        assert found | {"millis": None, "micros": None} == expected | {"millis": None, "micros": None}
    times = data.selectExpr("unix_micros(value.millis)", "unix_micros(value.micros)").where("value IS NOT NULL").collect()
    assert {tuple(row) for row in times} == {(int(NOON.timestamp() * 1000) * 1000,) * 2}


def test_messages_of_older_and_newer_schemas_are_brought_to_the_query_s(
    spark: SparkSession, broker: Broker, registry: RegistryClient, registry_url: str, topic: str
) -> None:
    first, second = record(id="int", gone="string"), record(id="long", name=("string", "nobody"))
    third = record(id="long", name=("string", "nobody"), more=(["null", "int"], None))
    subject = f"{topic}-value"
    registry.set_level("NONE", subject=subject)
    ids = [register(registry, subject, schema) for schema in (first, second, third)]
    values: list[dict[str, Any]] = [{"id": 1, "gone": "x"}, {"id": 2, "name": "ann"}, {"id": 3, "name": "bob", "more": 4}]
    write(broker, topic, [Message(message(*pair)) for pair in zip(ids, (first, second, third), values, strict=True)])

    def read(**more: object) -> list[dict[str, Any]]:
        data = frame(spark, broker, topic, **options(registry_url, **more)).orderBy("offset")
        return [row["value"].asDict() for row in data.collect()]

    latest = [{"id": 1, "name": "nobody", "more": None}, {"id": 2, "name": "ann", "more": None}, {"id": 3, "name": "bob", "more": 4}]
    assert read() == latest
    assert read(value__subject=subject) == latest
    assert read(value__schema=json.dumps(second)) == [{"id": 1, "name": "nobody"}, {"id": 2, "name": "ann"}, {"id": 3, "name": "bob"}]


def nested(version: int) -> dict[str, Any]:
    """A schema with nested records of its own, which no other version has: their defaults make the versions compatible."""
    inner = {}
    for number in range(8):
        names = [f"n{each}" for each in range(version + number)]
        kind = {"type": "record", "name": f"inner{version}_{number}", "fields": [{"name": name, "type": "string"} for name in names]}
        inner[f"r{version}_{number}"] = kind, dict.fromkeys(names, "x" * version)
    return record(id="long", **inner, tail=("string", ""))


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
def test_nested_records_of_five_versions_are_skipped_where_the_query_wants_few_columns(
    spark: SparkSession, broker: Broker, registry: RegistryClient, registry_url: str, topic: str, mode: str
) -> None:
    schemas = [nested(number) for number in range(1, 6)]
    registry.set_level("BACKWARD", subject=f"{topic}-value")
    ids = [register(registry, f"{topic}-value", schema) for schema in schemas]
    contents = []
    for row in range(50):
        schema = schemas[row % 5]
        value = {"id": row, "tail": f"row {row}"} | {each["name"]: each["default"] for each in schema["fields"] if "default" in each}
        contents.append(message(ids[row % 5], schema, value | {"tail": f"row {row}"}))
    # Several that are broken, between those that are not.
    broken = {10: contents[10][:-1], 20: b"plain", 21: contents[21] + b"\x00", 49: b"\x00\x00"} if mode != "FAILFAST" else {}
    write(broker, topic, [Message(broken.get(row, content)) for row, content in enumerate(contents)])
    narrow = json.dumps(record(id="long", tail="string"))
    data = frame(spark, broker, topic, **options(registry_url, value__schema=narrow, mode=mode)).orderBy("offset")
    found = {row["offset"]: row["value"] and tuple(row["value"]) for row in data.collect()}
    expected = {row: (row, f"row {row}") for row in range(50) if row not in broken}
    assert found == (expected | dict.fromkeys(broken) if mode == "PERMISSIVE" else expected)


def test_a_running_stream_keeps_its_columns_when_the_schema_grows(
    spark: SparkSession, broker: Broker, registry: RegistryClient, registry_url: str, topic: str
) -> None:
    old, new = record(id="int"), record(id="int", name=("string", "nobody"))
    old_id = register(registry, f"{topic}-value", old)
    write(broker, topic, [Message(message(old_id, old, {"id": 1}))])

    @contextmanager
    def running(name: str) -> Iterator[Any]:
        # What the traffic writes is no Avro, and left out.
        data = stream(spark, broker, topic, **options(registry_url, mode="DROPMALFORMED")).select("value")
        query = data.writeStream.format("memory").queryName(name).start()
        try:
            yield lambda: sorted(tuple(row[0]) for row in spark.table(name).collect())
        finally:
            query.stop()

    with Traffic(broker, topic), running("evolving") as rows:
        wait_until(lambda: rows() == [(1,)], "the old message", deadline_s=240)
        new_id = register(registry, f"{topic}-value", new)
        write(broker, topic, [Message(message(new_id, new, {"id": 2, "name": "ann"})), Message(message(old_id, old, {"id": 3}))])
        wait_until(lambda: rows() == [(1,), (2,), (3,)], "the new message", deadline_s=240)
    with Traffic(broker, topic), running("evolved") as rows:
        wait_until(lambda: rows() == [(1, "nobody"), (2, "ann"), (3, "nobody")], "all of them", deadline_s=240)


@pytest.fixture(scope="module")
def broken_topic(broker: Broker, registry_url: str) -> str:
    """Good messages at the offsets 0 and 6, and between them some that are not."""
    topic = create_topic(broker)
    schema = record(id="int")
    with RegistryClient(registry_url) as registry:
        schema_id = register(registry, f"{topic}-value", schema)
        other_id = register(registry, f"{fresh_name()}-value", {"type": "array", "items": "string"})
    good = message(schema_id, schema, {"id": 500})
    write(broker, topic, [Message(content) for content in (
        good, b"plain", good[:-1], good + b"\x00", message(99999, schema, {"id": 1}), message(other_id, "int", 0), good, b"",
    )])  # fmt: skip
    return topic


@pytest.mark.parametrize(("offset", "reason"), [
    (1, "it does not begin with a zero byte and the id of a schema"),
    (2, "it ends in the middle of a field"),
    (3, "there are bytes after its last field"),
    (4, "its schema 99999 is not in the registry"),
    (5, "cannot be brought to the reader's: array cannot be read as record test.event"),
    (7, "it does not begin with a zero byte and the id of a schema"),
])  # fmt: skip
def test_a_broken_message_fails_the_query_and_is_named(
    spark: SparkSession, broker: Broker, registry_url: str, broken_topic: str, offset: int, reason: str
) -> None:
    start = f'{{"{broken_topic}": {{"0": {offset}}}}}'
    data = frame(spark, broker, broken_topic, **options(registry_url, startingOffsets=start))
    with pytest.raises(Exception, match=f"the value at offset {offset} of {broken_topic}-0 cannot be read as avro: .*{reason}"):
        data.collect()


def test_broken_messages_come_in_a_column_of_their_own(spark: SparkSession, broker: Broker, registry_url: str, broken_topic: str) -> None:
    data = frame(spark, broker, broken_topic, **options(registry_url, mode="PERMISSIVE", columns="value,offset")).orderBy("offset")
    assert data.columns == ["value", "offset", "corrupt_value"]
    rows = [(row["value"] and row["value"]["id"], row["offset"], row["corrupt_value"] is not None) for row in data.collect()]
    assert rows == [(500, 0, False), *((None, offset, True) for offset in range(1, 6)), (500, 6, False), (None, 7, True)]
    raw = frame(spark, broker, broken_topic).orderBy("offset").collect()
    assert [row["corrupt_value"] for row in data.collect()][1:6] == [row["value"] for row in raw][1:6]


def test_broken_messages_can_be_left_out(spark: SparkSession, broker: Broker, registry_url: str, broken_topic: str) -> None:
    data = frame(spark, broker, broken_topic, **options(registry_url, mode="dropMalformed")).orderBy("offset")
    assert [(row["offset"], row["value"]["id"]) for row in data.collect()] == [(0, 500), (6, 500)]


def test_keys_have_schemas_too(spark: SparkSession, broker: Broker, registry: RegistryClient, registry_url: str, topic: str) -> None:
    schema_id = register(registry, f"{topic}-key", "string")
    write(broker, topic, [Message(b"plain text", message(schema_id, "string", "ann")), Message(b"no key")])
    data = frame(spark, broker, topic, key__format="avro", value__format="string", schema__registry__url=registry_url)
    assert [(row["key"], row["value"]) for row in data.orderBy("offset").collect()] == [("ann", "plain text"), (None, "no key")]


def test_schemas_may_refer_to_others(spark: SparkSession, broker: Broker, registry: RegistryClient, registry_url: str, topic: str) -> None:
    place = '{"type": "record", "name": "place", "namespace": "test", "fields": [{"name": "city", "type": "string"}]}'
    registry.register(f"{topic}-place", place)
    visit = '{"type": "record", "name": "visit", "namespace": "test", "fields": [{"name": "where", "type": "test.place"}]}'
    registered = registry.register(f"{topic}-value", visit, references=[Reference("test.place", f"{topic}-place", 1)])
    write(broker, topic, [Message(b"\x00" + registered.schema_id.to_bytes(4) + b"\x08Oslo")])
    data = frame(spark, broker, topic, **options(registry_url))
    assert data.selectExpr("value.where.city").collect()[0][0] == "Oslo"


def test_schemas_that_cannot_be_are_reported_when_the_query_is_made(
    spark: SparkSession, broker: Broker, registry: RegistryClient, registry_url: str, topic: str
) -> None:
    with pytest.raises(
        Exception, match=rf"option value\.subject, schema\.registry\.url: the schema of the subject '{topic}-value' was not found"
    ):
        frame(spark, broker, topic, **options(registry_url))
    with pytest.raises(Exception, match=r"option value\.subject, schema\.registry\.url: .*127\.0\.0\.1:1"):
        frame(spark, broker, topic, **options("http://127.0.0.1:1"))
    with pytest.raises(Exception, match=r"option value\.schema: the schema cannot be read with: it is not an Avro schema"):
        frame(spark, broker, topic, **options(registry_url, value__schema="{}"))
    with pytest.raises(Exception, match=r"option value\.subject: value\.format = avro on more than one topic needs it"):
        frame(spark, broker, subscribe=f"{topic},other", **options(registry_url))
    node = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    register(registry, f"{topic}-value", node)
    with pytest.raises(Exception, match=r"option value\.subject: .*the record node contains itself, and Spark has no recursive types"):
        frame(spark, broker, topic, **options(registry_url))
