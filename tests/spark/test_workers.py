"""Connections stay in the worker process: Spark unpickles a fresh reader for every task, and that must not cost a connection each time."""

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.spark import worker_clusters
from tests.brokers import Broker
from tests.spark.reading import frame, numbers
from tests.spark.topic_content import write_numbers
from tests.topics import create_topic


def open_connections(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Which sockets to brokers this worker process has: its id and theirs, seen from the kernel."""
    for _ in batches:
        ports = [
            connection._socket.getsockname()[1]
            for cluster in worker_clusters._clusters.values()
            for connection in cluster._connections.values()
            if not connection.is_closed
        ]
        yield pa.RecordBatch.from_pydict({"pid": pa.array([os.getpid()] * len(ports), pa.int64()), "port": pa.array(ports, pa.int64())})


def test_workers_keep_their_connections_from_task_to_task(spark: SparkSession, broker: Broker) -> None:
    topic = create_topic(broker, partitions=4)
    for partition in range(4):
        write_numbers(broker, topic, range(10), partition=partition)

    def connections() -> set[tuple[int, int]]:
        found = spark.range(0, 8, 1, 8).mapInArrow(open_connections, "pid BIGINT, port BIGINT").collect()
        return {(row["pid"], row["port"]) for row in found}

    data = frame(spark, broker, topic, kafka__client__id="keeps-connections")
    assert len(numbers(data)) == 40
    before = connections()
    assert before
    for _ in range(3):
        assert len(numbers(data)) == 40
    # Another worker may have joined, but none has opened a second connection for the same brokers.
    after = connections()
    assert {pid for pid, _ in before} & {pid for pid, _ in after}
    for pid in {pid for pid, _ in before} & {pid for pid, _ in after}:
        assert {port for owner, port in before if owner == pid} <= {port for owner, port in after if owner == pid}
