"""The data directories of brokers, what lies in them, and moving it from one to another, at any Kafka from 1.1 on (KIP-113).

    admin = DiskAdmin(cluster)
    admin.describe({1: [TopicPartition("clicks", 0)]})                      # the directories of broker 1, and where that replica is
    admin.move({Replica(1, TopicPartition("clicks", 0)): "/data/b"})        # begin; what was refused comes back with its reason

Each broker is asked itself: a directory is its own business. A replica that moves has a second copy, the future one, until that takes the
place of the first. To move a replica to where it is takes a move back. A broker that does not have the replica refuses with
`ReplicaNotAvailable`, but remembers the directory: should the replica come, it is made there.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from millstream.client.admin.log_dirs import PARTITIONS_PER_REQUEST, describe_log_dirs
from millstream.client.cluster import Cluster
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import BrokerUnavailable, kafka_error
from millstream.client.portions import portions
from millstream.errors import MillstreamError
from millstream.topic_partition import TopicPartition, by_topic
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.describe_log_dirs import DescribeLogDirsResponse

_HIGHEST: Final = 2


class Replica(NamedTuple):
    """One copy of a partition: that of a broker."""

    broker: int
    place: TopicPartition

    def __str__(self) -> str:
        return f"{self.place} of broker {self.broker}"


class Disk(NamedTuple):
    """A data directory of a broker; what its volume has is not known of brokers before Kafka 3.3, and of one that is offline."""

    path: str
    is_online: bool = True
    free_bytes: int | None = None
    total_bytes: int | None = None


class Stored(NamedTuple):
    """Where a copy is, and what it takes there."""

    path: str
    size_bytes: int


@dataclass(frozen=True)
class Disks:
    """What brokers have where."""

    of_brokers: dict[int, tuple[Disk, ...]] = field(default_factory=dict)
    """Only those that answered."""
    current: dict[Replica, Stored] = field(default_factory=dict)
    future: dict[Replica, Stored] = field(default_factory=dict)
    """Copies that are being made in another directory."""

    def disk(self, broker: int, path: str) -> Disk | None:
        """A directory by its path."""
        return next((disk for disk in self.of_brokers.get(broker, ()) if disk.path == path), None)

    def add(self, broker: int, answer: "DescribeLogDirsResponse") -> None:
        """Note what a broker has answered."""
        self.of_brokers[broker] = tuple(
            Disk(one.log_dir, not one.error_code, _known(one.usable_bytes), _known(one.total_bytes)) for one in answer.results
        )
        for directory in answer.results:
            for topic in directory.topics:
                for one in topic.partitions:
                    copies = self.future if one.is_future_key else self.current
                    copies[Replica(broker, TopicPartition(topic.name, one.partition_index))] = Stored(directory.log_dir, one.partition_size)


class DiskAdmin:
    """Asks the brokers of a cluster; for one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def describe(self, wanted: Mapping[int, Collection[TopicPartition]]) -> Disks:
        """The directories of these brokers, and these replicas; a broker that does not answer is left out."""
        found = Disks()
        for broker, answers in describe_log_dirs(self._cluster, wanted).items():
            for answer in answers:
                if answer.error_code:
                    raise kafka_error(int(answer.error_code), f"broker {broker} does not describe its data directories")
                found.add(broker, answer)
        return found

    def move(self, targets: Mapping[Replica, str]) -> dict[Replica, MillstreamError]:
        """Let replicas move to these directories; returns those that were refused, or whose broker does not answer."""
        refused: dict[Replica, MillstreamError] = {}
        for broker in sorted({replica.broker for replica in targets}):
            own = sorted(replica for replica in targets if replica.broker == broker)
            for some in portions(own, PARTITIONS_PER_REQUEST):
                try:
                    answer = self._cluster.connection(broker).call(_move_request({replica.place: targets[replica] for replica in some}))
                except BrokerUnavailable as error:
                    refused.update(dict.fromkeys(some, error))
                    continue
                for topic in answer.results:
                    for one in topic.partitions:
                        if one.error_code:
                            place = TopicPartition(topic.topic_name, one.partition_index)
                            refused[Replica(broker, place)] = kafka_error(int(one.error_code))
        return refused


def _move_request(targets: Mapping[TopicPartition, str]) -> MessageRequest[Any]:
    directories = [
        {
            "path": path,
            "topics": [
                {"name": topic, "partitions": numbers}
                for topic, numbers in by_topic(place for place, wanted in targets.items() if wanted == path).items()
            ],
        }
        for path in sorted(set(targets.values()))
    ]
    return MessageRequest(ApiKey.ALTER_REPLICA_LOG_DIRS, {"dirs": directories}, highest=_HIGHEST)


def _known(size_bytes: int) -> int | None:
    return None if size_bytes < 0 else size_bytes
