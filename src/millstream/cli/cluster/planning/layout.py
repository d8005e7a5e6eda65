"""What planners work with: which brokers there are, which partitions they keep, and how large those are. Pure values.

The first replica of a partition is its preferred leader. Racks are compared, not interpreted: a broker without one is a rack of its own,
so that without racks every rule about them holds by itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.topic_partition import TopicPartition

Replicas = tuple[int, ...]
Targets = dict[TopicPartition, Replicas]
"""The replicas that partitions should have; those that stay as they are do not occur."""


class PartitionLayout(NamedTuple):
    """The replicas of a partition, and what one of them takes on disk."""

    replicas: Replicas
    size_bytes: int


class Load(NamedTuple):
    """What one broker has: how many replicas, how many of them it leads by preference, and their bytes."""

    partitions: int
    leaders: int
    size_bytes: int


@dataclass(frozen=True)
class Layout:
    """The brokers that are there, with their racks, and all partitions; replicas may be on brokers that are not there."""

    racks: Mapping[int, str | None]
    partitions: Mapping[TopicPartition, PartitionLayout]
    capacities: Mapping[int, float] = field(default_factory=dict)
    """How much each is to have, where that is not the same for all: shares of the mean."""

    def changed(self, targets: Mapping[TopicPartition, Replicas]) -> "Layout":
        """The layout when these partitions have these replicas."""
        new = {place: PartitionLayout(replicas, self.partitions[place].size_bytes) for place, replicas in targets.items()}
        return Layout(self.racks, {**self.partitions, **new}, self.capacities)

    def only(self, places: Iterable[TopicPartition], brokers: Iterable[int]) -> "Layout":
        """A part of it: these partitions and brokers."""
        return Layout(
            {broker: self.racks[broker] for broker in brokers}, {place: self.partitions[place] for place in places}, self.capacities
        )

    def loads(self) -> dict[int, Load]:
        """What each broker has: those that are there, and those that keep replicas."""
        partitions: Counter[int] = Counter()
        leaders: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        for replicas, size_bytes in self.partitions.values():
            leaders[replicas[0]] += 1
            for replica in replicas:
                partitions[replica] += 1
                sizes[replica] += size_bytes
        return {broker: Load(partitions[broker], leaders[broker], sizes[broker]) for broker in sorted({*self.racks, *partitions})}

    def rack_count(self, replicas: Iterable[int]) -> int:
        """Over how many racks these brokers are spread."""
        return len({self.racks.get(broker) or broker for broker in replicas})
