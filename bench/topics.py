"""Topics for benchmarks: created explicitly, so that no figure contains an auto-creation."""

from collections.abc import Mapping
from time import monotonic, sleep

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.case import BenchError
from bench.peers.broker import Broker

CREATE_TIMEOUT_SECONDS = 60.0


def create_topic(broker: Broker, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until its last partition has a leader that answers."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    futures = admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))], operation_timeout=30, request_timeout=60)
    futures[topic].result(CREATE_TIMEOUT_SECONDS)
    deadline = monotonic() + CREATE_TIMEOUT_SECONDS
    with broker.connect() as connection:
        while True:
            try:
                connection.end_offset(topic, partitions - 1)
                connection.end_offset(topic, 0)
                return
            except BenchError:
                if monotonic() > deadline:
                    raise
                sleep(0.02)
