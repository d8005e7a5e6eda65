"""What is wrong is said in one sentence: what, where, what to do. Nothing blocks, and nothing is silently left out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import millstream
from millstream.arrow.data_loss import DataLoss
from millstream.client.errors import BrokerUnavailable
from millstream.errors import CommandFailed, MillstreamError, UnknownTopicOrPartition, UsageError
from millstream.registry.client import RegistryClient
from millstream.registry.errors import RegistryError
from tests.brokers import Broker
from tests.ports import free_port
from tests.spark.admin import delete_records
from tests.spark.avro_messages import message, record, register
from tests.spark.topic_content import Message, write, write_numbers
from tests.topics import create_topic, delete_topic, fresh_name

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def five(broker: Broker) -> str:
    topic = create_topic(broker)
    write_numbers(broker, topic, range(5))
    return topic


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"start": 3, "end": 2}, UsageError, "start is after end: offset 3 and 2"),
        ({"start": NOW, "end": NOW - timedelta(1)}, UsageError, "start is after end: time"),
        ({"start": 4, "end": datetime(1970, 1, 1, tzinfo=UTC)}, UsageError, "start is after end: .*-0 would be read from offset 4 up to 0"),
        (
            {"start": 6},
            DataLoss,
            "start is offset 6, and .*-0 has the offsets from 0 up to 5. fail_on_data_loss=False .* reads what there is",
        ),
        ({"end": 6}, DataLoss, "end is offset 6, and .*-0 has the offsets from 0 up to 5"),
        ({"start": {1: 0}}, UsageError, "start: it must name each partition that is read and no other: 0"),
        ({"partitions": [3]}, UnknownTopicOrPartition, "has no partition 3: it has 1"),
        ({"columns": ["ofset"]}, UsageError, "there is no column 'ofset'; did you mean 'offset'?"),
        ({"columns": ["corrupt_value"]}, UsageError, "there is no column 'corrupt_value'"),
        ({"value_format": "avro"}, UsageError, "registry: value_format='avro' needs it"),
        ({"follow": True, "end": 4}, UsageError, "with follow=True there is no end"),
        ({"follow": True}, UsageError, "has no end, and no table holds it"),
        ({"options": {"client.ids": "x"}}, UsageError, "a scan has no option 'client.ids'; did you mean 'client.id'?"),
        ({"options": {"sasl.username": "x"}}, UsageError, "sasl.username: it needs security.protocol"),
    ],
)
def test_what_cannot_be_is_said(broker: Broker, five: str, arguments: dict[str, Any], kind: type[MillstreamError], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        millstream.read_table(five, brokers=broker.bootstrap_servers, **arguments)


def test_a_topic_that_is_not_there_is_looked_for_among_the_others(broker: Broker, five: str) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=f"there is no topic '{five}s' at .*; did you mean '{five}'"):
        millstream.read_table(f"{five}s", brokers=broker.bootstrap_servers)
    assert millstream.read_table(five, brokers=broker.bootstrap_servers).num_rows == 5  # asking created nothing


def test_no_broker_is_an_error_at_once() -> None:
    with pytest.raises(BrokerUnavailable, match=r"no broker answers at 127\.0\.0\.1:"):
        millstream.read_table("clicks", brokers=f"127.0.0.1:{free_port()}")


def test_a_registry_that_is_away_is_an_error(broker: Broker, five: str) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(CommandFailed, match=f"the schema of the subject '{five}-value' was not found at {away}"):
        millstream.read_table(five, brokers=broker.bootstrap_servers, value_format="avro", registry=away)


def test_a_registry_that_goes_away_in_the_middle_is_an_error(
    broker: Broker, topic: str, registry: RegistryClient, registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = record(page="string")
    schema_id = register(registry, f"{topic}-value", schema)
    write(broker, topic, [Message(message(schema_id, schema, {"page": "/"}))])
    scan = millstream.scan(topic, brokers=broker.bootstrap_servers, value_format="avro", registry=registry_url)
    assert "page" in scan.schema.names

    def refuse(*_: object, **__: object) -> None:
        raise RegistryError("the registry is away", status=503)

    monkeypatch.setattr(RegistryClient, "schema_by_id", refuse)
    with pytest.raises(RegistryError, match="the registry is away"):
        scan.to_table()


def test_values_that_look_like_avro_where_no_registry_knows_them_are_bytes(broker: Broker, topic: str, registry_url: str) -> None:
    write(broker, topic, [Message(b"\x00\x7f\xff\xff\xff long")])
    table = millstream.read_table(topic, brokers=broker.bootstrap_servers, value_format="auto", registry=registry_url)
    assert table["value"].to_pylist() == [b"\x00\x7f\xff\xff\xff long"]


@pytest.fixture
def large_records(broker: Broker) -> str:
    """Ten records of which a fetch has one."""
    topic = create_topic(broker)
    for number in range(10):
        write(broker, topic, [Message(b"%d" % number * 20_000)])
    return topic


def small_fetches(broker: Broker, topic: str, **arguments: Any) -> millstream.TopicScan:
    options = {"max.partition.fetch.bytes": "21000"}
    return millstream.scan(topic, brokers=broker.bootstrap_servers, columns=["offset"], options=options, threads=1, **arguments)


def test_records_that_retention_deletes_before_they_are_read_are_lost_data(broker: Broker, large_records: str) -> None:
    scan = small_fetches(broker, large_records)
    spans = scan.find_spans()
    delete_records(broker, large_records, before=4)
    with pytest.raises(DataLoss, match=r"offset 0 of .*-0 is gone: the partition now has the offsets from 4 up to 10"):
        list(scan.batches(spans=spans))
    patient = small_fetches(broker, large_records, fail_on_data_loss=False)
    assert [offset for batch in patient.batches(spans=spans) for offset in batch.column("offset").to_pylist()] == list(range(4, 10))
    assert scan.to_table().num_rows == 6  # who asks for what there is gets it


def test_a_topic_that_vanishes_before_it_is_read_is_lost_data(broker: Broker, large_records: str) -> None:
    scan = small_fetches(broker, large_records)
    spans = scan.find_spans()
    assert scan.schema.names == ["offset"]
    delete_topic(broker, large_records)
    with pytest.raises(DataLoss, match="is gone, with the offsets from 0 to 10"):
        list(scan.batches(spans=spans))


def test_an_error_of_one_thread_ends_the_others(broker: Broker, wait_for_threads: Any) -> None:
    topic = create_topic(broker, partitions=4)
    write(broker, topic, [Message(b"\xff" if number == 999 else b"x" * 1_000, partition=number % 4) for number in range(1_000)])
    with pytest.raises(MillstreamError, match=r"the value at offset 249 of .*-3 cannot be read as string: it is not UTF-8"):
        millstream.read_table(topic, brokers=broker.bootstrap_servers, value_format="string", threads=4)
    wait_for_threads()


def test_a_topic_without_values_has_no_columns_of_json_to_see(broker: Broker, topic: str) -> None:
    with pytest.raises(UsageError, match="the topic has no values yet to see the columns of JSON in; name the columns with value_schema"):
        millstream.read_table(topic, brokers=broker.bootstrap_servers, value_format="json")


def test_a_name_that_is_no_topic_is_an_error(broker: Broker) -> None:
    for name in ("", "a/b", fresh_name()):
        with pytest.raises(MillstreamError, match="topic"):
            millstream.read_table(name, brokers=broker.bootstrap_servers)
