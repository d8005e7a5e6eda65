"""The same against Apache Kafka, where its jars are: rows, streams, committed progress."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.brokers import KafkaBroker
from tests.spark.admin import committed
from tests.spark.reading import frame, rows, run_available, stream, table
from tests.spark.test_batch import messages
from tests.spark.test_stream_start import all_offsets, beginning, default_stream, has_rows
from tests.spark.test_stream_start import run as run_batches
from tests.spark.topic_content import read, write, write_numbers
from tests.spark.traffic import Traffic
from tests.topics import create_topic, fresh_name

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Apache Kafka, or a skipped test."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), {})
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
