"""A plan: the replicas and directories that partitions have, and those that they should have. Pure; it can be written in Kafka's format.

{"version": 1, "partitions": [{"topic": "clicks", "partition": 0, "replicas": [1, 2], "log_dirs": ["/data/b", "any"]}]}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from millstream.cli.cluster.planning.layout import Layout, Replicas
from millstream.client.admin.disk_admin import Disks, Replica
from millstream.topic_partition import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"


class Move(NamedTuple):
    """One partition that gets other replicas, or the same in another order."""

    place: TopicPartition
    before: Replicas
    after: Replicas
    size_bytes: int

    @property
    def adding(self) -> Replicas:
        """Brokers that get a copy."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> Replicas:
        """Brokers that delete theirs."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def bytes_to_copy(self) -> int:
        """What goes over the network."""
        return self.size_bytes * len(self.adding)


class DiskMove(NamedTuple):
    """One replica that gets into another data directory of its broker; before is None where the replica is yet to come."""

    replica: Replica
    before: str | None
    after: str
    size_bytes: int

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return self.replica.place

    @property
    def bytes_to_copy(self) -> int:
        """What goes from one disk to the other."""
        return 0 if self.before is None else self.size_bytes


@dataclass(frozen=True)
class Plan:
    """What is to be changed in a layout; partitions and replicas that stay as they are do not occur."""

    layout: Layout
    moves: tuple[Move, ...]
    disk_moves: tuple[DiskMove, ...] = ()

    @classmethod
    def of(cls, layout: Layout, targets: Mapping[TopicPartition, Replicas], disk_moves: Iterable[DiskMove] = ()) -> "Plan":
        """The plan that leads from a layout to these replicas."""
        moves = [
            Move(place, layout.partitions[place].replicas, after, layout.partitions[place].size_bytes) for place, after in targets.items()
        ]
        return cls(
            layout,
            tuple(sorted(move for move in moves if move.before != move.after)),
            tuple(sorted((move for move in disk_moves if move.before != move.after), key=lambda move: move.replica)),
        )

    @property
    def targets(self) -> dict[TopicPartition, Replicas]:
        """The replicas of every partition that changes."""
        return {move.place: move.after for move in self.moves}

    @cached_property
    def copies(self) -> tuple[Move, ...]:
        """Those for which data has to be copied."""
        return tuple(move for move in self.moves if move.adding)

    @cached_property
    def bytes_to_copy(self) -> int:
        """What goes over the network in all."""
        return sum(move.bytes_to_copy for move in self.moves)

    @cached_property
    def disk_bytes_to_copy(self) -> int:
        """What goes from disk to disk in all."""
        return sum(move.bytes_to_copy for move in self.disk_moves)

    @property
    def places(self) -> list[TopicPartition]:
        """Every partition that changes."""
        return sorted({move.place for move in self.moves} | {move.place for move in self.disk_moves})

    @property
    def after(self) -> Layout:
        """The layout when all is done."""
        return self.layout.changed(self.targets)

    def document(self) -> dict[str, object]:
        """The plan in Kafka's format."""
        targets, wanted = self.targets, {move.replica: move.after for move in self.disk_moves}
        assignments = ((place, targets.get(place) or self.layout.partitions[place].replicas) for place in self.places)
        return plan_document(assignments, wanted)


def disk_moves_to(disks: Disks, wanted: Mapping[Replica, str]) -> list[DiskMove]:
    """The moves that lead from what brokers have to these directories."""
    found = []
    for replica, path in wanted.items():
        stored = disks.current.get(replica)
        found.append(DiskMove(replica, None, path, 0) if stored is None else DiskMove(replica, stored.path, path, stored.size_bytes))
    return found


def plan_document(assignments: Iterable[tuple[TopicPartition, Replicas]], directories: Mapping[Replica, str]) -> dict[str, object]:
    """Partitions, their replicas and the directories of those in Kafka's format."""
    partitions = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(replicas),
            "log_dirs": [directories.get(Replica(broker, place), ANY_DIRECTORY) for broker in replicas],
        }
        for place, replicas in assignments
    ]
    return {"version": VERSION, "partitions": partitions}
