"""Whose brokers a rig runs: Millstream, or Apache Kafka as the control."""

from collections.abc import Sequence
from pathlib import Path

from tests.cluster.faults.cluster import Cluster
from tests.cluster.faults.faults import NEED_A_DISK
from tests.cluster.faults.kafka_cluster import KafkaCluster
from tests.cluster.faults.millstream_cluster import MillstreamCluster

DISK_NODE = 3


def make_cluster(peer: str, directory: Path, *, kinds: Sequence[str], session_timeout_ms: int) -> Cluster:
    """Not started yet; one broker gets a disk of its own if a fault needs that."""
    kind = KafkaCluster if peer == "kafka" else MillstreamCluster
    return kind(directory, session_timeout_ms=session_timeout_ms, disks=[DISK_NODE] if NEED_A_DISK.intersection(kinds) else [])
