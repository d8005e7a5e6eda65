"""Topics for benchmarks: created explicitly, so that no figure contains an auto-creation."""

from collections.abc import Mapping, Sequence
from time import monotonic, sleep

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.case import BenchError
from bench.peers.service import Service

CREATE_TIMEOUT_SECONDS = 60.0
SILENT = 2


def create_topic(
    service: Service,
    topic: str,
    *,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    assignment: Sequence[Sequence[int]] | None = None,
) -> None:
    """Create a topic and wait until every partition can be written to. `assignment`: each partition's replicas, the preferred first."""
    admin = AdminClient({"bootstrap.servers": service.bootstrap_servers, "log_level": SILENT})
    placement = (
        {"replication_factor": service.replicas} if assignment is None else {"replica_assignment": [list(one) for one in assignment]}
    )
    new = NewTopic(topic, partitions, config={**service.topic_config, **(config or {})}, **placement)
    admin.create_topics([new], operation_timeout=30, request_timeout=60)[topic].result(CREATE_TIMEOUT_SECONDS)
    deadline = monotonic() + CREATE_TIMEOUT_SECONDS
    while not service.is_settled(topic, partitions=partitions):
        if monotonic() > deadline:
            raise BenchError(f"{topic} cannot be written to {CREATE_TIMEOUT_SECONDS:g} s after its creation")
        sleep(0.005)


def drop_topic(service: Service, topic: str) -> None:
    """Delete a topic and its files at once: what one round wrote is not to be put on the disk at the expense of the next ones."""
    admin = AdminClient({"bootstrap.servers": service.bootstrap_servers, "log_level": SILENT})
    admin.delete_topics([topic], operation_timeout=30, request_timeout=60)[topic].result(CREATE_TIMEOUT_SECONDS)
