"""What the commit of a micro-batch leaves at the broker, and what the tasks of the next one find there; without Spark around it."""

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from millstream.client.cluster import Cluster
from millstream.spark.sink.sink_progress import SinkProgress, WrittenBatch
from millstream.spark.sink.writer import BatchWritten, StreamWriter
from tests.brokers import Broker
from tests.topics import fresh_name

VALUES = StructType([StructField("value", BinaryType())])


def remembered(broker: Broker, query: str, topic: str) -> WrittenBatch | None:
    with Cluster(broker.bootstrap_servers) as cluster:
        return SinkProgress(cluster, query, topic, timeout_s=30).last_written()


def commit(broker: Broker, query: str, topic: str, batch_id: int, *, rows: int) -> None:
    """Commit a micro-batch whose one task has written so many rows."""
    writer = StreamWriter({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}, VALUES)
    before = remembered(broker, query, topic)
    topics = frozenset({topic} if rows else ())
    writer.commit([BatchWritten(query, topics, rows, digest=rows, remembered=before)], batch_id)


def test_a_micro_batch_without_rows_is_remembered_only_if_the_checkpoint_went_back(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = fresh_name("query")
    commit(broker, query, topic, 0, rows=0)
    assert remembered(broker, query, topic) is None
    commit(broker, query, topic, 5, rows=10)
    commit(broker, query, topic, 6, rows=0)
    assert remembered(broker, query, topic) == WrittenBatch(5, 10, 10, frozenset({topic}), turn=0)
    assert caplog.messages == []
    # Rolled back: when the ids come to 5 again, that is another micro-batch, whatever its rows are.
    commit(broker, query, topic, 3, rows=0)
    assert remembered(broker, query, topic) == WrittenBatch(3, 0, 0, frozenset({topic}), turn=1)
    assert "micro-batch 3 was written" in caplog.text
    commit(broker, query, topic, 4, rows=0)
    commit(broker, query, topic, 5, rows=10)
    assert remembered(broker, query, topic) == WrittenBatch(5, 10, 10, frozenset({topic}), turn=2)
