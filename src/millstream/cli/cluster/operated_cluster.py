"""What the commands that change a cluster ask it and tell it, by Kafka's protocol alone: its layout, moves, elections and throttles."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property

from millstream.cli.cluster.planning.layout import Layout, PartitionLayout
from millstream.cli.cluster.planning.plan import DiskMove, Move
from millstream.cli.cluster.throttle import BROKER_OPTIONS, TOPIC_OPTIONS, unthrottled
from millstream.cli.connected_cluster import connected_cluster
from millstream.cli.kafka_client import close_name
from millstream.client.admin.config_admin import BROKER, TOPIC, ConfigAdmin, Options, Resource
from millstream.client.admin.disk_admin import DiskAdmin, Disks, Replica
from millstream.client.admin.log_dirs import replica_sizes
from millstream.client.admin.reassignment_admin import Reassignment, ReassignmentAdmin
from millstream.client.cluster import Cluster
from millstream.client.codecs.metadata import NO_LEADER, ClusterMetadata, metadata_request
from millstream.client.errors import BrokerUnavailable
from millstream.errors import CommandFailed, MillstreamError
from millstream.topic_partition import TopicPartition

TIMEOUT_S = 60.0


@dataclass
class OperatedCluster:
    """The cluster that a command changes."""

    brokers: str
    cluster: Cluster
    admin: ReassignmentAdmin = field(init=False)
    configs: ConfigAdmin = field(init=False)
    disks: DiskAdmin = field(init=False)

    def __post_init__(self) -> None:
        self.admin = ReassignmentAdmin(self.cluster, timeout_s=TIMEOUT_S)
        self.configs = ConfigAdmin(self.cluster)
        self.disks = DiskAdmin(self.cluster)

    @cached_property
    def metadata(self) -> ClusterMetadata:
        """Brokers and partitions as they were when this was first asked."""
        return self.cluster.refresh(None)

    @property
    def live_brokers(self) -> list[int]:
        """The brokers that are there."""
        return sorted(self.metadata.brokers)

    @property
    def missing_brokers(self) -> list[int]:
        """Brokers that keep replicas and are not there."""
        return sorted({broker for _, _, replicas in self._partitions() for broker in replicas} - set(self.metadata.brokers))

    def silent_brokers(self, among: Collection[int]) -> list[int]:
        """Those of these brokers that the cluster counts as there, and that do not answer: it may not have noticed yet that they died."""
        silent = []
        for broker in sorted(set(among).intersection(self.metadata.brokers)):
            try:
                self.cluster.connection(broker).call(metadata_request([]))
            except BrokerUnavailable:
                silent.append(broker)
        return silent

    def leaders(self) -> dict[TopicPartition, int]:
        """Who leads each partition, asked anew; `NO_LEADER` where nobody does."""
        return _leaders(self.cluster.refresh(None))

    def leaderless(self) -> set[TopicPartition]:
        """Partitions that no broker leads."""
        return {place for place, leader in _leaders(self.metadata).items() if leader == NO_LEADER}

    def layout(self) -> Layout:
        """Who keeps what, with the size of the largest replica that a broker reports."""
        sizes: dict[TopicPartition, int] = {}
        for replica, stored in self.known_disks.current.items():
            sizes[replica.place] = max(stored.size_bytes, sizes.get(replica.place, 0))
        partitions = {
            TopicPartition(topic, number): PartitionLayout(replicas, sizes.get(TopicPartition(topic, number), 0))
            for topic, number, replicas in self._partitions()
        }
        return Layout({broker: self.metadata.racks.get(broker) for broker in self.live_brokers}, partitions)

    @cached_property
    def known_disks(self) -> Disks:
        """The data directories of the brokers that answer, and their replicas, as they were when this was first asked."""
        return self.all_disks()

    def all_disks(self) -> Disks:
        """The same, asked anew."""
        by_broker: dict[int, list[TopicPartition]] = {broker: [] for broker in self.live_brokers}
        for topic, number, replicas in self._partitions():
            for broker in replicas:
                if broker in by_broker:
                    by_broker[broker].append(TopicPartition(topic, number))
        return self.disks.describe(by_broker)

    def describe_disks(self, replicas: Iterable[Replica]) -> Disks:
        """Where these replicas are now."""
        wanted: dict[int, list[TopicPartition]] = {}
        for broker, place in replicas:
            wanted.setdefault(broker, []).append(place)
        return self.disks.describe(wanted)

    def places_of(self, topics: Collection[str]) -> list[TopicPartition]:
        """The partitions of topics that must exist."""
        known = self.metadata.topics
        for name in topics:
            if name not in known or known[name].error_code:
                meant = close_name(name, known)
                hint = f"did you mean {meant}?" if meant else "`millstream topic list` shows those that there are."
                raise CommandFailed(f"There is no topic {name!r} at {self.brokers}; {hint}")
        return [TopicPartition(name, number) for name in dict.fromkeys(topics) for number in known[name].partitions]

    def sizes_of_new(self, moves: Collection[Move]) -> dict[int, dict[TopicPartition, int]]:
        """What the brokers that get replicas have of them."""
        wanted: dict[int, list[TopicPartition]] = {}
        for move in moves:
            for broker in move.adding:
                wanted.setdefault(broker, []).append(move.place)
        known = self.cluster.metadata.brokers
        return replica_sizes(self.cluster, {broker: places for broker, places in wanted.items() if broker in known})

    def moves_under_way(self, under_way: Mapping[TopicPartition, Reassignment]) -> list[Move]:
        """What is being moved, as moves of a plan."""
        layout = self.layout()
        return [
            Move(place, tuple(one for one in found.replicas if one not in found.adding), found.target, layout.partitions[place].size_bytes)
            for place, found in sorted(under_way.items())
            if place in layout.partitions
        ]

    def disk_moves_under_way(self) -> list[DiskMove]:
        """What is being moved between the disks of brokers that answer, asked anew."""
        found = self.all_disks()
        return [
            DiskMove(replica, found.current[replica].path, future.path, found.current[replica].size_bytes)
            for replica, future in sorted(found.future.items())
            if replica in found.current
        ]

    def throttles(self) -> dict[Resource, dict[str, str]]:
        """The throttles of replication that are set on topics, and on brokers that answer."""
        found = self.configs.set_values([Resource(TOPIC, topic) for topic in self.metadata.topics], TOPIC_OPTIONS)
        for broker in self.live_brokers:
            with suppress(BrokerUnavailable):
                found |= self.configs.set_values([Resource(BROKER, str(broker))], BROKER_OPTIONS)
        return found

    def throttle(self, options: Mapping[Resource, Options]) -> None:
        """Set throttles: all, or none."""
        try:
            self.configs.alter(options)
        except MillstreamError:
            self.remove_throttles(options)
            raise

    def remove_throttles(self, throttles: Mapping[Resource, Collection[str]]) -> dict[Resource, MillstreamError]:
        """Remove these options; returns the topics and brokers that keep theirs, and why."""
        left: dict[Resource, MillstreamError] = {}
        wanted = unthrottled(throttles)
        with suppress(MillstreamError):  # if one is refused, each is asked for
            self.configs.alter({one: options for one, options in wanted.items() if one.kind == TOPIC})
            wanted = {one: options for one, options in wanted.items() if one.kind != TOPIC}
        for resource, options in wanted.items():
            try:
                self.configs.alter({resource: options})
            except MillstreamError as error:
                left[resource] = error
        return left

    def _partitions(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        for name, topic in self.metadata.topics.items():
            for number, partition in topic.partitions.items():
                yield name, number, partition.replicas


def _leaders(metadata: ClusterMetadata) -> dict[TopicPartition, int]:
    return {
        TopicPartition(name, number): partition.leader
        for name, topic in metadata.topics.items()
        for number, partition in topic.partitions.items()
    }


@contextmanager
def open_operated(brokers: str, client_options: list[str] | None) -> Iterator[OperatedCluster]:
    """The cluster that the flags `-b` and `-X` name."""
    with connected_cluster(brokers, client_options) as cluster:
        yield OperatedCluster(brokers, cluster)
