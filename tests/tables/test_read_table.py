"""Tables have exactly what a consumer reads, from where they were asked to begin up to where they were asked to end."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import millstream
from millstream.arrow.row_builder import MalformedMessage
from millstream.registry.client import RegistryClient
from tests.brokers import Broker
from tests.spark.avro_messages import message, record, register
from tests.spark.topic_content import Message, read, write
from tests.topics import create_topic

START_MS = 1_700_000_000_000
VIEW = record(page="string", seconds="double", timestamp="long")


def at(number: int) -> datetime:
    return datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(seconds=number)


@pytest.fixture(scope="module")
def numbered(broker: Broker) -> str:
    """Two partitions with ten numbers each, a second apart; those of partition 1 are larger by ten."""
    topic = create_topic(broker, partitions=2)
    write(
        broker,
        topic,
        [Message(b"%d" % number, b"k%d" % number, number // 10, (), START_MS + 1000 * (number % 10)) for number in range(20)],
    )
    return topic


def numbers(broker: Broker, topic: str, **arguments: Any) -> list[int]:
    table = millstream.read_table(topic, brokers=broker.bootstrap_servers, columns=["value"], **arguments)
    return [int(value) for value in table.column("value").to_pylist()]


def test_a_table_has_every_record_with_all_its_parts_by_partition_and_offset(broker: Broker) -> None:
    topic = create_topic(broker, partitions=3)
    messages = [
        Message(None if number % 11 == 0 else b"v%d" % number, None if number % 5 == 0 else b"k%d" % number, number % 3,
                [("h", b"%d" % number), ("n", None)] if number % 2 else (), START_MS + number)
        for number in range(3_000)
    ]  # fmt: skip
    write(broker, topic, messages[:1500], compression_type="zstd")
    write(broker, topic, messages[1500:], compression_type="none")
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    table = millstream.read_table(topic, brokers=broker.bootstrap_servers, columns=names)
    expected = [
        {
            **row._asdict(),
            "timestamp": row.timestamp_ms,
            "headers": row.headers and [{"key": name, "value": value} for name, value in row.headers],
        }
        for row in read(broker, topic, partitions=3)
    ]
    found = table.set_column(5, "timestamp", table.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())).to_pylist()
    assert len(found) == 3_000
    assert found == [{name: row["timestamp_type" if name == "timestampType" else name] for name in names} for row in expected]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, range(20)),
        ({"start": 4}, [*range(4, 10), *range(14, 20)]),
        ({"end": 4}, [*range(4), *range(10, 14)]),
        ({"start": {0: 8, 1: "latest"}}, [8, 9]),
        ({"start": {0: 8}, "partitions": [0]}, [8, 9]),
        ({"start": {0: 9, 1: at(8)}, "end": {0: "latest", 1: 9}}, [9, 18]),
        ({"start": at(7), "end": at(9)}, [7, 8, 17, 18]),
        ({"start": at(8).isoformat(), "partitions": [1]}, [18, 19]),
        ({"start": at(8).replace(tzinfo=None), "partitions": [1]}, [18, 19]),
        ({"start": datetime(1950, 1, 1, tzinfo=UTC), "end": 1}, [0, 10]),
        ({"start": timedelta(days=36_500), "end": 1}, [0, 10]),
        ({"start": timedelta(hours=1)}, []),
        ({"start": datetime.now(UTC) + timedelta(days=1)}, []),
        ({"start": at(9), "end": datetime.now(UTC) + timedelta(days=1)}, [9, 19]),
        ({"start": "latest"}, []),
        ({"start": 10}, []),
        ({"start": 99, "end": 99, "fail_on_data_loss": False}, []),
        ({"start": 8, "end": 99, "fail_on_data_loss": False}, [8, 9, 18, 19]),
        ({"threads": 1}, range(20)),
        ({"options": {"isolation.level": "read_committed", "max.partition.fetch.bytes": "100"}}, range(20)),
    ],
)  # fmt: skip
def test_a_table_begins_and_ends_where_it_was_asked_to(broker: Broker, numbered: str, arguments: Any, expected: Any) -> None:
    assert numbers(broker, numbered, **arguments) == list(expected)


def test_a_time_that_has_no_microseconds_is_the_last_that_has(broker: Broker) -> None:
    topic = create_topic(broker, configs={"message.timestamp.after.max.ms": 2**63 - 1})
    write(broker, topic, [Message(b"now", timestamp_ms=1_000), Message(b"never", timestamp_ms=2**62)])
    found = millstream.read_table(topic, brokers=broker.bootstrap_servers)["timestamp"].cast(pa.int64()).to_pylist()
    assert found == [1_000_000, 9_223_372_036_854_775_000]


def test_a_topic_that_grows_is_read_up_to_the_end_it_had_and_anew_each_time(broker: Broker, topic: str) -> None:
    write(broker, topic, [Message(b"%d" % number) for number in range(10)])
    scan = millstream.scan(topic, brokers=broker.bootstrap_servers, columns=["offset"])
    batches = scan.batches(spans=scan.find_spans())
    write(broker, topic, [Message(b"late")])
    assert sum(batch.num_rows for batch in batches) == 10
    assert scan.to_table().num_rows == 11
    assert scan.to_reader().read_all().num_rows == 11


def test_an_empty_topic_is_an_empty_table_with_columns(broker: Broker, topic: str) -> None:
    table = millstream.read_table(topic, brokers=broker.bootstrap_servers, value_format="string")
    assert (table.num_rows, table.schema.field("value").type) == (0, pa.string())


def views(registry: RegistryClient, topic: str, count: int) -> list[bytes]:
    schema_id = register(registry, f"{topic}-value", VIEW)
    return [message(schema_id, VIEW, {"page": f"/{number % 7}", "seconds": number / 2, "timestamp": number}) for number in range(count)]


def test_the_fields_of_avro_records_are_columns_beside_kafkas_own(broker: Broker, registry: RegistryClient, registry_url: str) -> None:
    topic = create_topic(broker, partitions=2)
    values = views(registry, topic, 500)
    write(broker, topic, [Message(value, b"k", number % 2, timestamp_ms=START_MS) for number, value in enumerate(values)])
    table = millstream.read_table(topic, brokers=broker.bootstrap_servers, value_format="avro", key_format="string", registry=registry_url)
    assert table.column_names == [
        "key", "page", "seconds", "value_timestamp", "topic", "partition", "offset", "timestamp", "timestampType"
    ]  # fmt: skip
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert sorted(table.column("value_timestamp").to_pylist()) == list(range(500))
    some = millstream.read_table(
        topic, brokers=broker.bootstrap_servers, value_format="auto", registry=registry_url, columns=["offset", "seconds"], threads=2
    )
    assert some.to_pylist() == table.select(["offset", "seconds"]).to_pylist()
    whole = millstream.read_table(topic, brokers=broker.bootstrap_servers, value_format="avro", registry=registry_url, flatten=False)
    assert whole.column("value").to_pylist()[0] == {"page": "/0", "seconds": 0.0, "timestamp": 0}


def test_schemas_that_follow_each_other_are_one_table(broker: Broker, topic: str, registry: RegistryClient, registry_url: str) -> None:
    old, new = record(page="string"), record(page="string", user=("string", "nobody"))
    old_id = register(registry, f"{topic}-value", old)
    new_id = register(registry, f"{topic}-value", new)
    write(broker, topic, [Message(message(old_id, old, {"page": "/"})), Message(message(new_id, new, {"page": "/a", "user": "ann"}))])
    table = millstream.read_table(
        topic, brokers=broker.bootstrap_servers, value_format="avro", registry=registry_url, columns=["page", "user"]
    )
    assert table.to_pylist() == [{"page": "/", "user": "nobody"}, {"page": "/a", "user": "ann"}]


@pytest.mark.parametrize("schema", [None, {"page": "string", "n": "int64"}, pa.schema([("page", pa.string()), ("n", pa.int64())])])
def test_json_has_the_columns_that_were_named_or_seen(broker: Broker, topic: str, schema: Any) -> None:
    rows = [{"page": f"/{number}", "n": number} for number in range(50)]
    write(broker, topic, [Message(json.dumps(row).encode()) for row in rows])
    table = millstream.read_table(topic, brokers=broker.bootstrap_servers, value_format="json", value_schema=schema, columns=["page", "n"])
    assert table.to_pylist() == rows


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b"caf\xc3\xa9", None, b"x"], pa.string()),
        ([b"\xff\x00", b"x"], pa.binary()),
        ([b'{"a": 1}', b'{"a": "x"}'], pa.string()),
        ([], pa.binary()),
    ],
)
def test_what_values_are_is_seen_where_it_is_not_said(broker: Broker, topic: str, values: list[bytes | None], kind: pa.DataType) -> None:
    write(broker, topic, [Message(value) for value in values])
    table = millstream.read_table(topic, brokers=broker.bootstrap_servers, value_format="auto")
    assert table.schema.field("value").type == kind
    assert table.num_rows == len(values)


def test_malformed_messages_are_an_error_a_column_or_left_out(
    broker: Broker, topic: str, registry: RegistryClient, registry_url: str
) -> None:
    good = views(registry, topic, 3)
    write(broker, topic, [Message(good[0]), Message(b"broken"), Message(good[2])])
    arguments: dict[str, Any] = {"brokers": broker.bootstrap_servers, "value_format": "avro", "registry": registry_url}
    with pytest.raises(MalformedMessage, match=rf"the value at offset 1 of {topic}-0 cannot be read as avro: it does not begin with"):
        millstream.read_table(topic, **arguments)
    columns = ["page", "offset", "corrupt_value"]
    assert millstream.read_table(topic, mode="PERMISSIVE", columns=columns, **arguments).to_pylist() == [
        {"page": "/0", "offset": 0, "corrupt_value": None},
        {"page": None, "offset": 1, "corrupt_value": b"broken"},
        {"page": "/2", "offset": 2, "corrupt_value": None},
    ]
    for chosen in (["page"], ["offset"]):
        assert millstream.read_table(topic, mode="DROPMALFORMED", columns=chosen, **arguments).num_rows == 2


@pytest.mark.parametrize("threads", [1, 3])
def test_whoever_stops_in_the_middle_leaves_nothing_running(broker: Broker, threads: int, wait_for_threads: Callable[[], None]) -> None:
    topic = create_topic(broker, partitions=4)
    write(broker, topic, [Message(b"x" * 20_000, partition=number % 4) for number in range(2_000)])
    batches = millstream.scan(topic, brokers=broker.bootstrap_servers, threads=threads).batches()
    assert next(batches).num_rows > 0
    batches.close()  # type: ignore[attr-defined]  # a generator
    wait_for_threads()
