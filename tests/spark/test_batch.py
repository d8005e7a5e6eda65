"""A batch has exactly the rows that confluent-kafka reads, between the positions that its options give."""

from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.brokers import Broker
from tests.spark.admin import member_of
from tests.spark.reading import frame, numbers, rows
from tests.spark.topic_content import Message, read, write, write_numbers
from tests.topics import create_topic, fresh_name

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


def messages(seed: int, count: int, *, partitions: int = 1) -> list[Message]:
    """Messages of every kind: null and empty keys and values, headers, times, short and long."""
    random = Random(seed)

    def content() -> bytes | None:
        size = random.choice([None, 0, 1, 20, 300])
        return None if size is None else random.randbytes(size)

    return [
        Message(
            content(),
            content(),
            random.randrange(partitions),
            [(f"h{number}", content()) for number in range(random.choice([0, 0, 1, 3]))],
            1_700_000_000_000 + random.randrange(10**9),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_what_another_client_reads(spark: SparkSession, broker: Broker, codec: str) -> None:
    topic = create_topic(broker, partitions=2)
    write(broker, topic, messages(1, 1500, partitions=2), compression_type=codec)
    assert rows(frame(spark, broker, topic, includeHeaders=True)) == read(broker, topic, partitions=2)


def test_columns_are_those_of_sparks_own_connector(spark: SparkSession, broker: Broker) -> None:
    topic = create_topic(broker)
    data = frame(spark, broker, topic)
    assert ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in data.schema) == COLUMNS
    assert data.collect() == []
    with_headers = frame(spark, broker, topic, includeHeaders=True)
    assert with_headers.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


def test_the_time_of_the_broker_is_reported_as_such(spark: SparkSession, broker: Broker) -> None:
    topic = create_topic(broker, configs={"message.timestamp.type": "LogAppendTime"})
    write(broker, topic, messages(2, 20))
    expected = read(broker, topic)
    assert {row.timestamp_type for row in expected} == {1}
    assert rows(frame(spark, broker, topic, includeHeaders=True)) == expected


def test_columns_that_are_not_wanted_are_not_there(spark: SparkSession, broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(10))
    assert frame(spark, broker, topic, columns="offset, VALUE").columns == ["value", "offset"]
    assert frame(spark, broker, topic, columns="offset").selectExpr("sum(offset)").collect()[0][0] == 45
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    own = spark.read.format("millstream").schema("offset BIGINT, key BINARY").options(**options).load()
    assert [tuple(row) for row in own.collect()] == [(number, None) for number in range(10)]


@pytest.fixture(scope="module")
def numbered(broker: Broker) -> str:
    """A topic of two partitions: 0 to 9 and 100 to 109, at a time of 1000 ms and their number."""
    topic = create_topic(broker, partitions=2)
    write_numbers(broker, topic, range(10))
    write_numbers(broker, topic, range(100, 110), partition=1)
    return topic


def numbered_offsets(topic: str, first: int, second: int) -> str:
    return f'{{"{topic}": {{"0": {first}, "1": {second}}}}}'


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [*range(10), *range(100, 110)]),
        ({"startingOffsets": "EARLIEST", "endingOffsets": "latest"}, [*range(10), *range(100, 110)]),
        ({"startingOffsets": (4, -2)}, [*range(4, 10), *range(100, 110)]),
        ({"endingOffsets": (4, -1)}, [*range(4), *range(100, 110)]),
        ({"startingOffsets": (2, 8), "endingOffsets": (4, 10)}, [2, 3, 108, 109]),
        ({"startingTimestamp": 1005, "endingTimestamp": 1103}, [*range(5, 10), 100, 101, 102]),
        ({"startingOffsetsByTimestamp": (1007, 1107)}, [7, 8, 9, 107, 108, 109]),
        ({"endingOffsetsByTimestamp": (1003, 9999)}, [0, 1, 2, *range(100, 110)]),
        # One time for all goes before times, and times before offsets.
        ({"startingTimestamp": 1009, "startingOffsetsByTimestamp": (0, 0), "startingOffsets": "earliest"}, [9, *range(100, 110)]),
        ({"startingOffsetsByTimestamp": (1009, 1109), "startingOffsets": "earliest"}, [9, 109]),
        ({"startingTimestamp": 1050, "startingOffsetsByTimestampStrategy": "latest"}, [*range(100, 110)]),
        ({"minPartitions": 7}, [*range(10), *range(100, 110)]),
        ({"maxRecordsPerPartition": 3}, [*range(10), *range(100, 110)]),
        ({"kafka__isolation__level": "read_committed"}, [*range(10), *range(100, 110)]),
        ({"isolation__level": "read_committed"}, [*range(10), *range(100, 110)]),
        ({"kafka__max__partition__fetch__bytes": 100}, [*range(10), *range(100, 110)]),
        ({"groupIdPrefix": "mine", "kafka__group__id": "mine", "kafka__client__rack": "a"}, [*range(10), *range(100, 110)]),
    ],
    ids=str,
)  # fmt: skip
def test_a_batch_reads_what_its_options_say(
    spark: SparkSession, broker: Broker, numbered: str, options: dict[str, object], expected: list[int]
) -> None:
    named = {name: numbered_offsets(numbered, *value) if isinstance(value, tuple) else value for name, value in options.items()}
    assert numbers(frame(spark, broker, numbered, **named)) == expected


def test_topics_are_chosen_by_name_pattern_or_partition(spark: SparkSession, broker: Broker) -> None:
    stem = fresh_name()
    for number, name in enumerate((f"{stem}.a", f"{stem}.b")):
        create_topic(broker, name=name, partitions=2)
        write_numbers(broker, name, [2 * number], partition=0)
        write_numbers(broker, name, [2 * number + 1], partition=1)
    assert numbers(frame(spark, broker, subscribe=f"{stem}.a, {stem}.b")) == [0, 1, 2, 3]
    assert numbers(frame(spark, broker, subscribePattern=f"{stem}\\.[bc]")) == [2, 3]
    assert numbers(frame(spark, broker, subscribePattern=f"{stem}")) == []
    assert numbers(frame(spark, broker, assign=f'{{"{stem}.a": [1], "{stem}.b": [0]}}')) == [1, 2]


def test_big_partitions_are_split_over_tasks_and_small_ones_share_a_task(spark: SparkSession, broker: Broker, numbered: str) -> None:
    def sizes(**options: object) -> list[int]:
        counted = frame(spark, broker, numbered, **options).selectExpr("spark_partition_id() AS task").groupBy("task").count()
        return sorted(row["count"] for row in counted.collect())

    assert sizes() == [20]
    assert sizes(minRecordsPerPartition=10) == [10, 10]
    assert sizes(minPartitions=1) == [10, 10]
    assert sizes(minPartitions=4) == [5, 5, 5, 5]
    assert sizes(maxRecordsPerPartition=4) == [3, 3, 3, 3, 4, 4]
    assert sizes(minPartitions=1000) == [1] * 20


def test_a_record_bigger_than_the_fetch_size_passes(spark: SparkSession, broker: Broker) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 8_000_000})
    big = Random(3).randbytes(3_000_000)
    write(broker, topic, [Message(b"before"), Message(big), Message(b"after")], message_max_bytes=8_000_000)
    values = [row.value for row in rows(frame(spark, broker, topic, kafka__max__partition__fetch__bytes=1000))]
    assert values == [b"before", big, b"after"]


def test_a_slice_that_begins_and_ends_inside_batches_has_its_records_and_no_others(spark: SparkSession, broker: Broker) -> None:
    topic = create_topic(broker)
    write(broker, topic, [Message(b"%d" % number) for number in range(5000)], linger_ms=100, compression_type="zstd")
    assert numbers(frame(spark, broker, topic, maxRecordsPerPartition=777)) == list(range(5000))


def test_a_limit_ends_a_read_early_and_the_next_one_is_whole(spark: SparkSession, broker: Broker, numbered: str) -> None:
    data = frame(spark, broker, numbered, kafka__max__partition__fetch__bytes=100)
    assert len(data.limit(1).collect()) == 1
    assert len(data.collect()) == 20


def test_a_frame_keeps_the_offsets_of_its_first_action(spark: SparkSession, broker: Broker, topic: str) -> None:
    """So does Spark plan Python sources, once per load; whoever wants what came later loads again."""
    write_numbers(broker, topic, range(3))
    data = frame(spark, broker, topic)
    assert numbers(data) == [0, 1, 2]
    write_numbers(broker, topic, [3])
    assert numbers(data) == [0, 1, 2]
    assert numbers(frame(spark, broker, topic)) == [0, 1, 2, 3]


def test_sql_reads_a_topic_through_a_temporary_view(spark: SparkSession, broker: Broker, numbered: str) -> None:
    options = f"`kafka.bootstrap.servers` '{broker.bootstrap_servers}', subscribe '{numbered}'"
    spark.sql(f"CREATE TEMPORARY VIEW numbered USING millstream OPTIONS ({options})")
    try:
        assert spark.sql("SELECT count(*), sum(CAST(CAST(value AS STRING) AS INT)) FROM numbered").collect()[0][:] == (20, 45 + 1045)
    finally:
        spark.catalog.dropTempView("numbered")


def test_a_topic_of_kafka_s_own_is_read_when_it_is_named(spark: SparkSession, broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(3))
    group = fresh_name("group")
    member_of(broker, group, topic).close()
    keys = [bytes(row["key"]) for row in frame(spark, broker, "__consumer_offsets").select("key").collect()]
    assert any(group.encode() in key for key in keys)
    assert frame(spark, broker, subscribePattern="__.*").collect() == []
