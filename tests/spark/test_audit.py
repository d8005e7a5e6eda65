"""Queries of Spark as tiers of the audit: what a stream has processed, and what a write has written, each counted once."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.audit.verdict import Row, Verdict
from tests.audit_reports import read_rows
from tests.brokers import Broker
from tests.spark.reading import frame, stream
from tests.spark.topic_content import write_numbers
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def copy(spark: "SparkSession", broker: Broker, source: str, target: str, checkpoint: str) -> None:
    rows = stream(spark, broker, source, audit="reader", startingOffsets="earliest", maxOffsetsPerTrigger=20, minPartitions=3)
    writer = rows.select("key", "value").writeStream.format("millstream").option("checkpointLocation", checkpoint)
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap_servers).option("topic", target).option("audit", "writer")
    assert writer.trigger(availableNow=True).start().awaitTermination(200)


def rows_of(broker: Broker, topic: str, tier: str) -> list[Row]:
    return [row for row in read_rows(broker.bootstrap_servers, topic, with_log=True) if row.tier.name == tier]


def test_a_stream_from_topic_to_topic_is_complete_on_both_sides(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    source, target = create_topic(broker, partitions=2), create_topic(broker, partitions=2)
    for partition in range(2):
        write_numbers(broker, source, range(25), partition=partition)
    copy(spark, broker, source, target, checkpoint)
    write_numbers(broker, source, range(25, 35))
    copy(spark, broker, source, target, checkpoint)
    # As after a crash between the sink's commit and the checkpoint: the last micro-batch comes again.
    last = max(int(path.name) for path in Path(checkpoint, "commits").iterdir() if path.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        Path(checkpoint, "commits", name).unlink()
    copy(spark, broker, source, target, checkpoint)
    [read] = rows_of(broker, source, "reader")
    assert (read.count, read.missing, read.verdict) == (60, 0, Verdict.COMPLETE)
    written = rows_of(broker, target, "broker")
    assert sum(row.count for row in written) == 60
    assert {(row.missing, row.surplus, row.verdict) for row in written} == {(0, 0, Verdict.COMPLETE)}
    assert sum(row.count for row in rows_of(broker, target, "writer")) == 60


def test_a_batch_is_written_as_a_producer(spark: "SparkSession", broker: Broker, topic: str) -> None:
    rows = spark.range(100).selectExpr("cast(id as string) as value").repartition(3)
    rows.write.format("millstream").options(topic=topic, audit="job").option("kafka.bootstrap.servers", broker.bootstrap_servers).mode(
        "append"
    ).save()
    assert sum(row.count for row in rows_of(broker, topic, "job")) == 100
    assert {row.verdict for row in rows_of(broker, topic, "broker")} == {Verdict.COMPLETE}


def test_what_cannot_be_audited_is_refused(spark: "SparkSession", broker: Broker, topic: str) -> None:
    with pytest.raises(Exception, match="only a stream knows what has been processed"):
        frame(spark, broker, topic, audit="reader").count()
    with pytest.raises(Exception, match="no name of a tier"):
        frame(spark, broker, topic, audit="two words")
