"""Connections stay in the worker process: Spark unpickles a fresh reader for every task, and that must not cost a connection each time."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.brokers import Broker
from tests.spark.reading import frame, numbers
from tests.spark.topic_content import write_numbers
from tests.topics import create_topic

ESTABLISHED = "01"
MOST_PROCESSES = 8


def client_ports(broker: Broker) -> set[str]:
    """The ports of connections to the broker, as the kernel lists them."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {local for _, local, remote, state, *_ in lines if remote.endswith(f":{broker.port:04X}") and state == ESTABLISHED}


def test_workers_keep_their_connections_from_task_to_task(spark: SparkSession, broker: Broker) -> None:
    topic = create_topic(broker, partitions=4)
    for partition in range(4):
        write_numbers(broker, topic, range(10), partition=partition)
    others = client_ports(broker)
    data = frame(spark, broker, topic, kafka__client__id="keeps-connections", minRecordsPerPartition=1)
    assert len(numbers(data)) == 40
    opened = client_ports(broker) - others
    # A process that plans, and two that read; on a slow machine Spark starts others before those are free again.
    assert 1 <= len(opened) <= MOST_PROCESSES
    for _ in range(6):
        assert len(numbers(data)) == 40
    assert opened <= client_ports(broker)
    # There were 28 tasks in all.
    assert len(client_ports(broker) - others) <= MOST_PROCESSES
