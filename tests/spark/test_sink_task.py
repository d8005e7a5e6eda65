"""The work of one task without Spark around it: rows of Arrow to a real broker, read back by clients of other people."""

import random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql.pandas.types import from_arrow_schema

from millstream.arrow.field_encoding import ColumnMismatch
from millstream.client.errors import DeliveryFailed
from millstream.spark.sink.task_writer import Written, digest_rows, write_rows
from millstream.spark.sink.write_plan import plan_write
from tests.brokers import Broker, StartBroker
from tests.spark.read_back import ends, read_with_confluent, read_with_kafka_python
from tests.topics import create_topic

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BATCH_ROWS = 1_000


def save(broker: Broker, rows: pa.Table, **options: object) -> Written:
    """Write rows as one task; `kafka_acks` stands for `kafka.acks`, `value_format` for `value.format`."""
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers} | {name.replace("_", "."): str(value) for name, value in options.items()}
    plan = plan_write(given, from_arrow_schema(rows.schema))
    return write_rows(plan, iter(rows.to_batches(max_chunksize=BATCH_ROWS)))


def texts(*, count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_keys_go_where_other_clients_put_them(broker: Broker) -> None:
    ours, theirs = create_topic(broker, partitions=7), create_topic(broker, partitions=7)
    generator = random.Random(3)
    keys = [generator.randbytes(generator.randrange(40)) for _ in range(500)]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs, key=key, value=b"")
    assert producer.flush(30) == 0
    save(broker, pa.table({"key": keys, "value": [b""] * 500}), topic=ours)
    places = [{message.key: message.partition for message in read_with_confluent(broker, topic)} for topic in (ours, theirs)]
    assert places[0] == places[1]
    assert len(places[0]) == len(set(keys))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_by_others(broker: Broker, codec: str) -> None:
    topic = create_topic(broker, partitions=2)
    rows = pa.table({"key": texts(count=3000), "value": [text * 20 for text in texts(count=3000)]})
    save(broker, rows, topic=topic, kafka_compression_type=codec, kafka_batch_size=30_000)
    for read in (read_with_confluent, read_with_kafka_python):
        found = sorted((int(message.key or b""), message.value) for message in read(broker, topic))
        assert found == [(number, str(number).encode() * 20) for number in range(3000)]


def test_the_order_of_rows_is_kept_within_a_partition(broker: Broker) -> None:
    topic = create_topic(broker, partitions=4)
    rows = pa.table({"key": [str(number % 11) for number in range(50_000)], "value": texts(count=50_000)})
    assert save(broker, rows, topic=topic, kafka_batch_size=20_000) == Written(50_000, frozenset({topic}))
    last: dict[bytes | None, int] = {}
    messages = read_with_confluent(broker, topic)
    for message in messages:
        number = int(message.value or b"")
        assert last.get(message.key, -1) < number
        last[message.key] = number
    assert len(messages) == 50_000


def test_rows_without_a_key_are_spread(broker: Broker) -> None:
    topic = create_topic(broker, partitions=4)
    save(broker, pa.table({"value": ["x" * 100] * 20_000}), topic=topic, kafka_batch_size=16_384)
    assert sum(ends(broker, topic)) == 20_000
    assert min(ends(broker, topic)) > 4_000


def test_keys_can_be_ignored_for_the_partition(broker: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    rows = pa.table({"key": ["same"] * 1000, "value": ["x" * 100] * 1000})
    save(broker, rows, topic=topic, kafka_partitioner_ignore_keys="true", kafka_batch_size=5_000)
    assert min(ends(broker, topic)) > 0
    assert {message.key for message in read_with_confluent(broker, topic)} == {b"same"}


def test_a_row_may_name_its_topic_and_its_partition(broker: Broker) -> None:
    first, second = create_topic(broker, partitions=3), create_topic(broker, partitions=2)
    partitions = pa.array([2, 1, None, 0], type=pa.int32())
    written = save(broker, pa.table({"topic": [first, second, first, second], "partition": partitions, "value": ["a", "b", "c", "d"]}))
    assert written.topics == {first, second}
    assert {(message.partition, message.value) for message in read_with_confluent(broker, second)} == {(1, b"b"), (0, b"d")}
    found = {message.value: message.partition for message in read_with_confluent(broker, first)}
    assert found[b"a"] == 2
    assert found.keys() == {b"a", b"c"}


def test_the_option_topic_comes_before_the_column(broker: Broker) -> None:
    topic = create_topic(broker)
    save(broker, pa.table({"topic": ["elsewhere"], "value": ["a"]}), topic=topic)
    assert ends(broker, topic) == [1]


def test_columns_that_mean_nothing_to_a_topic_are_left_out(broker: Broker) -> None:
    topic = create_topic(broker)
    save(broker, pa.table({"offset": [7], "Value": ["a"], "more": [None]}), topic=topic)
    assert [message.value for message in read_with_confluent(broker, topic)] == [b"a"]


def test_headers_can_be_left_out(broker: Broker) -> None:
    topic = create_topic(broker)
    rows = pa.table({"value": ["a"], "headers": pa.array([[("h", b"1")]], type=HEADERS)})
    save(broker, rows, topic=topic, includeHeaders="false")
    save(broker, rows, topic=topic)
    assert [message.headers for message in read_with_confluent(broker, topic)] == [(), (("h", b"1"),)]


def test_a_large_row_passes_when_topic_and_request_allow_it(broker: Broker) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 6_000_000})
    rows = pa.table({"value": [text * 2_000_000 for text in texts(count=3)]})
    save(broker, rows, topic=topic, kafka_max_request_size=5_000_000)
    assert [message.value for message in read_with_confluent(broker, topic)] == [text.encode() * 2_000_000 for text in texts(count=3)]


def test_more_partitions_than_memory_for_batches(broker: Broker) -> None:
    topic = create_topic(broker, partitions=60)
    save(broker, pa.table({"key": texts(count=20_000), "value": ["x" * 50] * 20_000}), topic=topic, kafka_buffer_memory=50_000)
    assert sum(ends(broker, topic)) == 20_000


@pytest.mark.parametrize(
    "value", [pa.array([1, None, -3]), pa.array([True, None, False]), pa.array(["a", None, "ü"]), pa.array([b"a", None, b""])]
)
def test_the_format_string_writes_what_has_one_text(broker: Broker, value: pa.Array) -> None:
    topic = create_topic(broker)
    save(broker, pa.table({"value": value}), topic=topic, value_format="string")
    expected = [None if item is None else item if isinstance(item, bytes) else str(item).lower().encode() for item in value.to_pylist()]
    assert [message.value for message in read_with_confluent(broker, topic)] == expected


def test_the_format_string_refuses_what_has_many(broker: Broker) -> None:
    with pytest.raises(ColumnMismatch, match=r"value.format string does not take double: cast the column to a string in Spark"):
        save(broker, pa.table({"value": [1.5]}), topic=create_topic(broker), value_format="string")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"topic": ["t", None]}, "a row has no topic: its column `topic` is null"),
        ({"partition": pa.array([9], type=pa.int32())}, r"a row asks for partition 9 of topic '.*', which has the partitions 0 to 3"),
        ({"partition": pa.array([-1], type=pa.int32())}, r"a row asks for partition -1 of topic '.*', which has the partitions 0 to 3"),
        ({"key": ["x" * 2_000_000]}, r"makes a record of 20000.. bytes, more than kafka.max.request.size = 1048576: raise it"),
        ({"headers": pa.array([[(None, b"")]], type=HEADERS)}, "a row has a header without a name"),
    ],
)
def test_what_is_wrong_with_a_row_is_reported(broker: Broker, columns: dict[str, Any], expected: str) -> None:
    options = {} if "topic" in columns else {"topic": create_topic(broker, partitions=4)}
    rows = pa.table(columns | {"value": ["a"] * len(next(iter(columns.values())))})
    with pytest.raises(DeliveryFailed, match=expected):
        save(broker, rows, **options)


def test_a_topic_that_is_not_there_is_named(start_broker: StartBroker) -> None:
    with pytest.raises(DeliveryFailed, match=r"there is no topic 'nowhere' at .* create it first, or check the name"):
        save(start_broker(auto_create_topics_enable="false"), pa.table({"value": ["a"]}), topic="nowhere", kafka_max_block_ms=300)


def test_a_broker_that_is_away_is_reported(start_broker: StartBroker) -> None:
    broker = start_broker()
    broker.stop()
    with pytest.raises(DeliveryFailed, match=r"no broker answers at .*connection refused; is it running, and is the address right?"):
        save(broker, pa.table({"value": ["a"]}), topic="t", kafka_max_block_ms=300)


def test_what_would_be_written_has_the_digest_of_what_is(broker: Broker) -> None:
    first, second = create_topic(broker, partitions=2), create_topic(broker, partitions=2)
    count = 3 * BATCH_ROWS
    rows = pa.table({
        "topic": [(first, second)[number % 2] for number in range(count)],
        "key": [None if number % 7 == 0 else str(number) for number in range(count)],
        "value": texts(count=count),
        "partition": pa.array([None if number % 3 else number % 2 for number in range(count)], type=pa.int32()),
        "headers": pa.array([[("h", b"%d" % number)] * (number % 3) for number in range(count)], type=HEADERS),
    })  # fmt: skip
    plan = plan_write({"kafka.bootstrap.servers": broker.bootstrap_servers}, from_arrow_schema(rows.schema))
    written = write_rows(plan, iter(rows.to_batches(max_chunksize=BATCH_ROWS)), with_digest=True)
    assert written == digest_rows(plan, iter(rows.to_batches(max_chunksize=700)))
    assert written.row_count == count
    assert written.topics == {first, second}
    backwards = rows.take(list(range(count))[::-1])
    assert digest_rows(plan, iter(backwards.to_batches())) == written
    assert digest_rows(plan, iter(rows.slice(1).to_batches())).digest != written.digest
    assert sum(ends(broker, first)) + sum(ends(broker, second)) == count


def test_no_rows_need_no_broker() -> None:
    plan = plan_write({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}, from_arrow_schema(pa.schema([("value", pa.string())])))
    empty = pa.RecordBatch.from_pylist([], schema=pa.schema([("value", pa.string())]))
    assert write_rows(plan, iter([empty, empty])) == Written()
