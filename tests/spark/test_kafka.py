"""The same against Apache Kafka, where its jars are: rows, streams, committed progress, and transactions with aborts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.brokers import KafkaBroker
from tests.spark.admin import committed
from tests.spark.reading import frame, numbers, rows, run_available, stream, table
from tests.spark.test_batch import messages
from tests.spark.test_stream_start import all_offsets, beginning, default_stream, has_rows
from tests.spark.test_stream_start import run as run_batches
from tests.spark.topic_content import read, write, write_numbers
from tests.spark.traffic import Traffic
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Apache Kafka, or a skipped test."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), {"transaction.state.log.num.partitions": 1})
    broker.start(deadline_s=120)
    yield broker
    broker.stop()


def test_rows_of_kafka_are_what_another_client_reads(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = create_topic(kafka, partitions=2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        write(kafka, topic, messages(5, 300, partitions=2), compression_type=codec)
    assert rows(frame(spark, kafka, topic, includeHeaders=True)) == read(kafka, topic, partitions=2)


def test_a_stream_from_kafka_goes_on_and_commits_its_progress(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, checkpoint: str
) -> None:
    topic, group = create_topic(kafka), fresh_name("group")
    data = stream(spark, kafka, topic, maxOffsetsPerTrigger=7, group__id=group)
    write_numbers(kafka, topic, range(20))
    run_available(data, tmp_path / "table", checkpoint)
    write_numbers(kafka, topic, range(20, 30))
    run_available(data, tmp_path / "table", checkpoint)
    assert table(spark, tmp_path / "table") == list(range(30))
    assert committed(kafka, group) == {0: 30}


def test_a_default_stream_starts_on_a_topic_of_kafka_with_traffic(spark: SparkSession, kafka: KafkaBroker, checkpoint: str) -> None:
    topic = create_topic(kafka)
    with Traffic(kafka, topic, per_second=300):
        failed = run_batches(default_stream(spark, kafka, topic), checkpoint, fail=True, processingTime="0 seconds")
        seen = run_batches(default_stream(spark, kafka, topic), checkpoint, until=has_rows(100), processingTime="0 seconds")
    assert seen[0] == failed[0]
    start, offsets = beginning(checkpoint, topic), all_offsets(seen)
    assert offsets == list(range(start, start + len(offsets)))


def test_aborted_and_unfinished_transactions_are_not_rows_for_who_reads_what_is_committed(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = create_topic(kafka)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "linger.ms": 0, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(60)

    def transact(values: list[int], *, end: str) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, b"%d" % value, partition=0)
        assert producer.flush(30) == 0
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)

    transact([1, 2], end="commit")
    transact([3, 4, 5], end="abort")
    write_numbers(kafka, topic, [6])
    transact([7], end="commit")
    transact([8, 9], end="abort")
    transact([10], end="not yet")

    def read_committed() -> list[int]:
        return numbers(frame(spark, kafka, topic, isolation__level="read_committed"))

    assert read_committed() == [1, 2, 6, 7]
    assert numbers(frame(spark, kafka, topic)) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert numbers(frame(spark, kafka, topic, isolation__level="read_committed", maxRecordsPerPartition=2)) == [1, 2, 6, 7]
    producer.commit_transaction(30)
    # The coordinator has decided; the partition learns of it a moment later.
    wait_until(lambda: read_committed() == [1, 2, 6, 7, 10], "the marker", deadline_s=120)
