"""A group, whoever keeps it: the brokers (Kafka's two protocols) or ZooKeeper (the paper's consumers). Values.

`Groups` finds them in both places. Their names are apart: the same one may stand for one of each, and then the commands that change
something want to know which (`--type`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from millstream.batch_memory import is_batch_memory
from millstream.cli.group.consumer_groups import committed_offsets, list_groups, try_describe_groups
from millstream.cli.group.paper_groups import PaperGroup, PaperGroups, find_paper_groups
from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, close_name
from millstream.errors import CommandFailed, UsageError
from millstream.mirror.group_names import has_members_alone
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class GroupType(StrEnum):
    """The protocols of Kafka's, and the paper's registries in ZooKeeper."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    PAPER = "paper"


@dataclass(frozen=True)
class Member:
    """A consumer of a group; what is not known of the paper's is None."""

    member_id: str
    partitions: Sequence[TopicPartition]
    client: str | None = None
    host: str | None = None
    instance: str | None = None


@dataclass(frozen=True)
class KnownGroup:
    """A group and what it has committed."""

    name: str
    type: str
    state: str
    members: Sequence[Member] = ()
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    subscribed: frozenset[str] = frozenset()
    assignor: str | None = None
    coordinator: str | None = None

    @property
    def size(self) -> str:
        """`1 member`, `2 members`."""
        return f"{len(self.members)} member{'' if len(self.members) == 1 else 's'}"

    @property
    def is_paper(self) -> bool:
        """Whether it lives in ZooKeeper."""
        return self.type == GroupType.PAPER

    def places(self, partitions: Mapping[str, Iterable[int]]) -> list[TopicPartition]:
        """Every partition of every topic that the group reads or has read; of topics that are gone, what was committed."""
        topics = {place.topic for place in (*self.committed, *self.owners)} | self.subscribed
        whole = {TopicPartition(topic, number) for topic in topics for number in partitions.get(topic, ())}
        return sorted(whole | self.committed.keys() | self.owners.keys())


class Groups:
    """All groups of a cluster."""

    def __init__(self, cluster: Cluster, zookeeper: str | None) -> None:
        self.cluster = cluster
        self.admin: AdminClient = cluster.admin()
        with cluster.plain_errors("asking for the topics"):
            metadata = self.admin.list_topics(timeout=REQUEST_SECONDS)
        self.partitions: Mapping[str, list[int]] = {name: sorted(topic.partitions) for name, topic in metadata.topics.items()}
        self.paper: PaperGroups | None = find_paper_groups(zookeeper, brokers=cluster.brokers, cluster_id=metadata.cluster_id)

    def all(self) -> list[KnownGroup]:
        """Every group, by name."""
        listed = list_groups(self.cluster, self.admin)
        kafka = [group for group in self._kafka([found.group_id for found in listed]) if group is not None]
        described = {group.name for group in kafka}
        # A group that is gone by the time it is described was still one.
        kafka += [
            KnownGroup(found.group_id, type_name(found.type), state_name(found.state))
            for found in listed
            if found.group_id not in described
        ]
        paper = [] if self.paper is None else [_of_paper(found) for found in self.paper.read().values()]
        return sorted([*kafka, *paper], key=lambda group: (group.name, group.is_paper))

    def named(self, names: Sequence[str]) -> list[KnownGroup]:
        """Groups that must exist, in the order of the names; of a name that stands for two, both."""
        kafka = dict(zip(names, self._kafka(names), strict=True))
        paper = {} if self.paper is None else self.paper.read(names)
        found: list[KnownGroup] = []
        for name in names:
            both = [*([known] if (known := kafka[name]) is not None else []), *([_of_paper(paper[name])] if name in paper else [])]
            if not both:
                raise CommandFailed(self.missing(name))
            found += both
        return found

    def one(self, name: str, chosen: GroupType | None) -> KnownGroup | None:
        """The group of this name (and type), or None; a name that stands for two is not enough."""
        (kafka,) = self._kafka([name])
        paper = {} if self.paper is None else self.paper.read([name])
        if chosen is not None:
            kafka, paper = (None, paper) if chosen is GroupType.PAPER else (kafka, {})
        if kafka is not None and name in paper:
            raise UsageError(f"{name!r} is a group of Kafka's and one of the paper's: say which with --type {kafka.type} or --type paper.")
        return _of_paper(paper[name]) if name in paper else kafka

    def missing(self, name: str, chosen: GroupType | None = None) -> str:
        """The sentence for a group that is nowhere, or not of the type that was chosen."""
        if chosen is not None and (chosen is not GroupType.PAPER or self.paper is not None):
            other = self.one(name, None)
            if other is not None:
                return f"The group {name!r} at {self.cluster.brokers} is of type {other.type}, not {chosen}: leave out --type {chosen}."
        names = [found.group_id for found in list_groups(self.cluster, self.admin)]
        names += [] if self.paper is None else list(self.paper.read())
        where = f"at {self.cluster.brokers}" + ("" if self.paper is None else f", nor in ZooKeeper at {self.paper.address}")
        if meant := close_name(name, names):
            return f"There is no group {name!r} {where}; did you mean {meant}?"
        advice = "`millstream group list` shows those that exist"
        if self.paper is None:
            advice += ", and --zookeeper HOST:PORT also looks for the paper's consumers"
        return f"There is no group {name!r} {where}: {advice}."

    def _kafka(self, names: Sequence[str]) -> list[KnownGroup | None]:
        described = try_describe_groups(self.cluster, self.admin, names=names)
        existing = [group.group_id for group in described if group is not None]
        committed = committed_offsets(self.cluster, self.admin, groups=existing)
        return [None if group is None else _of_kafka(group, committed[group.group_id]) for group in described]


def _of_kafka(group: Any, committed: Mapping[TopicPartition, int]) -> KnownGroup:
    members = [
        Member(
            member.member_id,
            [TopicPartition(place.topic, place.partition) for place in member.assignment.topic_partitions],
            member.client_id,
            member.host.lstrip("/"),
            member.group_instance_id or None,
        )
        for member in group.members
    ]
    owners = {place: member.member_id for member in members for place in member.partitions}
    return KnownGroup(
        group.group_id,
        type_name(group.type),
        state_name(group.state),
        members,
        # The numbers of micro-batches are no positions: nothing lags there, and nothing is to be moved.
        {} if is_batch_memory(group.group_id) else committed,
        # Nor does a mirror commit to the group in which its processes share the work.
        owners={} if has_members_alone(group.group_id) and not committed else owners,
        assignor=group.partition_assignor or None,
        coordinator=None if group.coordinator is None else f"{group.coordinator.host}:{group.coordinator.port}",
    )


def _of_paper(group: PaperGroup) -> KnownGroup:
    owned: dict[str, list[TopicPartition]] = {name: [] for name in group.members}
    for place, owner in sorted(group.owners.items()):
        owned.setdefault(owner.rpartition("-")[0], []).append(place)  # the number of the stream comes last
    return KnownGroup(
        group.name,
        GroupType.PAPER,
        group.state,
        [Member(name, owned[name]) for name in sorted(group.members)],
        group.committed,
        owners=group.owners,
        subscribed=frozenset(group.topics),
    )


def state_name(state: Any) -> str:
    """`PREPARING_REBALANCING` -> `preparing-rebalance`, the words of `millstream group list --state`."""
    return str(state.name).lower().replace("_", "-").replace("rebalancing", "rebalance")


def type_name(kind: Any) -> str:
    """`CLASSIC` -> `classic`."""
    return str(kind.name).lower()
