"""How a cluster is, from what it says about its brokers and partitions. Pure.

    offline           a partition that no broker leads: it can be neither read nor written
    under_min_isr     fewer replicas in sync than `min.insync.replicas` (at most the number of replicas): acks=all is refused
    under_replicated  not all replicas are in sync: one more broker that dies may be one too many
    unpreferred       led by another replica than the first one: nothing is wrong, but the work may not be spread as it was meant to be
    missing brokers   brokers that hold replicas and are not there

Each partition is in the first of the first three lists that fits, and in `unpreferred` independent of that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

NO_LEADER = -1


@dataclass(frozen=True)
class BrokerAddress:
    """A broker that is there."""

    node_id: int
    address: str
    rack: str | None


@dataclass(frozen=True)
class PartitionStatus:
    """One partition as the cluster describes it."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def document(self) -> dict[str, object]:
        """As `--json` shows it."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "leader": None if self.leader == NO_LEADER else self.leader,
            "replicas": list(self.replicas),
            "in_sync_replicas": list(self.in_sync_replicas),
        }


@dataclass(frozen=True)
class ClusterStatus:
    """Everything that `millstream cluster status` shows."""

    cluster_id: str
    controller: int
    brokers: tuple[BrokerAddress, ...]
    topic_count: int
    partition_count: int
    leaders: Mapping[int, int]
    """How many partitions each broker leads."""
    replicas: Mapping[int, int]
    """How many replicas each broker holds; also those that are not there."""
    in_sync: Mapping[int, int]
    """How many of them are in sync."""
    offline: list[PartitionStatus] = field(default_factory=list)
    under_min_isr: list[PartitionStatus] = field(default_factory=list)
    under_replicated: list[PartitionStatus] = field(default_factory=list)
    unpreferred: list[PartitionStatus] = field(default_factory=list)

    @property
    def missing_brokers(self) -> list[int]:
        """Brokers that hold replicas and are not there."""
        return sorted(set(self.replicas) - {broker.node_id for broker in self.brokers})

    @property
    def is_well(self) -> bool:
        """Whether every partition has a leader and all its replicas in sync."""
        return not (self.offline or self.under_min_isr or self.under_replicated or self.missing_brokers)

    def document(self) -> dict[str, object]:
        """As `--json` shows it."""
        return {
            "cluster_id": self.cluster_id,
            "is_well": self.is_well,
            "controller": None if self.controller == NO_LEADER else self.controller,
            "brokers": [
                {
                    "id": broker.node_id,
                    "address": broker.address,
                    "rack": broker.rack,
                    "leaders": self.leaders.get(broker.node_id, 0),
                    "replicas": self.replicas.get(broker.node_id, 0),
                    "in_sync": self.in_sync.get(broker.node_id, 0),
                }
                for broker in self.brokers
            ],
            "missing_brokers": self.missing_brokers,
            "topics": self.topic_count,
            "partitions": self.partition_count,
            "offline": [partition.document() for partition in self.offline],
            "under_min_isr": [partition.document() for partition in self.under_min_isr],
            "under_replicated": [partition.document() for partition in self.under_replicated],
            "unpreferred_leaders": [partition.document() for partition in self.unpreferred],
        }


def cluster_status(
    cluster_id: str,
    controller: int,
    brokers: Iterable[BrokerAddress],
    partitions: Iterable[PartitionStatus],
    min_in_sync: Mapping[str, int],
) -> ClusterStatus:
    """What these brokers and partitions add up to; `min_in_sync` is by topic, and 1 where it is not known."""
    known = sorted(partitions, key=lambda partition: (partition.topic, partition.partition))
    status = ClusterStatus(
        cluster_id,
        controller,
        tuple(sorted(brokers, key=lambda broker: broker.node_id)),
        topic_count=len({partition.topic for partition in known}),
        partition_count=len(known),
        leaders=Counter(partition.leader for partition in known if partition.leader != NO_LEADER),
        replicas=Counter(replica for partition in known for replica in partition.replicas),
        in_sync=Counter(replica for partition in known for replica in partition.in_sync_replicas),
    )
    for partition in known:
        if partition.leader == NO_LEADER:
            status.offline.append(partition)
        elif len(partition.in_sync_replicas) < min(min_in_sync.get(partition.topic, 1), len(partition.replicas)):
            status.under_min_isr.append(partition)
        elif len(partition.in_sync_replicas) < len(partition.replicas):
            status.under_replicated.append(partition)
        if partition.leader not in (NO_LEADER, *partition.replicas[:1]):
            status.unpreferred.append(partition)
    return status
