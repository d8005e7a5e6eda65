"""What tests ask about the data directories of brokers."""

from pathlib import Path

from millstream.client.admin.disk_admin import DiskAdmin, Disks
from millstream.client.cluster import Cluster
from millstream.topic_partition import TopicPartition
from tests.cluster.operating.conftest import Operator


def disks_of(operator: Operator, topic: str) -> Disks:
    """The directories of all brokers, and the replicas of a topic in them."""
    with Cluster(operator.brokers.bootstrap_servers) as cluster:
        partitions = cluster.topic(topic).partitions
        places = [TopicPartition(topic, number) for number in partitions]
        return DiskAdmin(cluster).describe(dict.fromkeys(operator.brokers.running_ids, places))


def directories_of(operator: Operator, topic: str) -> dict[tuple[int, int], Path]:
    """Where the replicas of a topic are, by partition and broker."""
    return {(replica.place.partition, replica.broker): Path(stored.path) for replica, stored in disks_of(operator, topic).current.items()}
