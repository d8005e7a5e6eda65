"""Rows of Spark on topics, read back by clients of other people."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.brokers import Broker
from tests.spark.read_back import read_with_confluent, read_with_kafka_python
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: list[tuple[Any, ...]] = [
    ("ann", b"\x00\xff", [("trace", b"1"), ("empty", b""), ("null", None)]),
    ("bob", b"", []),
    ("", b"empty key", None),
    (None, b"no key", [("ü", "ü".encode())]),
    ("gone", None, None),
    (None, None, None),
]
SCHEMA = "key string, value binary, headers array<struct<key: string, value: binary>>"


def save(rows: "DataFrame", broker: Broker, **options: object) -> None:
    """Write rows; `kafka_acks` stands for `kafka.acks`, `value_format` for `value.format`."""
    writer = rows.write.format("millstream").mode("append").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    for name, value in options.items():
        writer = writer.option(name.replace("_", "."), str(value))
    writer.save()


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def test_other_clients_read_what_was_written(spark: "SparkSession", broker: Broker) -> None:
    topic = create_topic(broker)
    save(spark.createDataFrame(ROWS, SCHEMA).coalesce(1), broker, topic=topic)
    for read in (read_with_confluent, read_with_kafka_python):
        found = [(message.key, message.value, message.headers) for message in read(broker, topic)]
        assert found == [(as_bytes(key), value, tuple(headers or ())) for key, value, headers in ROWS]


def test_what_was_read_can_be_written_as_it_is(spark: "SparkSession", broker: Broker) -> None:
    source, target = create_topic(broker, partitions=3), create_topic(broker, partitions=3)
    save(spark.createDataFrame(ROWS, SCHEMA), broker, topic=source)
    read = spark.read.format("millstream").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    save(read.option("subscribe", source).option("includeHeaders", "true").load(), broker, topic=target)
    written, read_again = [[message.without_place() for message in read_with_confluent(broker, topic)] for topic in (source, target)]
    assert read_again == written


def test_no_broker_and_no_topic_are_reported_by_their_options(spark: "SparkSession", broker: Broker) -> None:
    rows = spark.createDataFrame([("a",)], "value string")
    for options, expected in (
        ({}, "option kafka.bootstrap.servers: it is required"),
        ({"kafka.bootstrap.servers": broker.bootstrap_servers}, "option topic: it is required, because the rows have no column `topic`"),
    ):
        with pytest.raises(Exception, match=expected):
            rows.write.format("millstream").mode("append").options(**options).save()


def test_a_topic_cannot_be_overwritten(spark: "SparkSession", broker: Broker) -> None:
    rows = spark.createDataFrame([("a",)], "value string").write.format("millstream").option("topic", "t")
    with pytest.raises(Exception, match="a topic cannot be overwritten, only appended to: write with mode append"):
        rows.option("kafka.bootstrap.servers", broker.bootstrap_servers).mode("overwrite").save()


def test_what_is_wrong_with_a_row_reaches_the_user(spark: "SparkSession", broker: Broker) -> None:
    topic = create_topic(broker)
    rows = spark.createDataFrame([(9, "a")], "partition int, value string")
    with pytest.raises(Exception, match=f"a row asks for partition 9 of topic '{topic}', which has the partitions 0 to 0"):
        save(rows, broker, topic=topic)


def test_rows_of_many_tasks_all_arrive(spark: "SparkSession", broker: Broker) -> None:
    topic = create_topic(broker, partitions=3)
    save(spark.range(0, 30_000, 1, 5).selectExpr("cast(id as string) as key", "cast(id as string) as value"), broker, topic=topic)
    assert sorted(int(message.value or b"") for message in read_with_confluent(broker, topic)) == list(range(30_000))
