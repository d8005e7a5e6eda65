"""Topics for benchmarks: created explicitly, so that no figure contains an auto-creation."""

from collections.abc import Mapping
from time import monotonic, sleep

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.case import BenchError
from bench.peers.broker import Broker
from bench.raw import RawConnection

CREATE_TIMEOUT_SECONDS = 60.0


def create_topic(broker: Broker, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until every partition has a leader that answers."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    futures = admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))], operation_timeout=30, request_timeout=60)
    futures[topic].result(CREATE_TIMEOUT_SECONDS)
    deadline = monotonic() + CREATE_TIMEOUT_SECONDS
    with broker.connect() as connection:
        for partition in range(partitions):
            while not _is_led(connection, topic, partition=partition):
                if monotonic() > deadline:
                    raise BenchError(f"{topic}-{partition} has no leader {CREATE_TIMEOUT_SECONDS:g} s after its creation")
                sleep(0.005)


def drop_topic(broker: Broker, topic: str) -> None:
    """Delete a topic and its files at once: what one round wrote is not to be put on the disk at the expense of the next ones."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic], operation_timeout=30, request_timeout=60)[topic].result(CREATE_TIMEOUT_SECONDS)


def _is_led(connection: RawConnection, topic: str, *, partition: int) -> bool:
    try:
        connection.end_offset(topic, partition)
    except BenchError:
        return False
    return True
