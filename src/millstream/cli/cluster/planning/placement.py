"""A layout while it is being planned: replicas are moved one by one, and what each broker then has is known at once. Pure.

No rule is kept here but one: a broker has a partition at most once.
"""

from collections import Counter, defaultdict
from collections.abc import Collection

from millstream.cli.cluster.planning.layout import Layout, Replicas, Targets
from millstream.topic_partition import TopicPartition

TOPIC_WEIGHT = 0.2


class Placement:
    """Where every replica is in the plan so far."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.replicas = {place: known.replicas for place, known in layout.partitions.items()}
        self.counts: Counter[int] = Counter(dict.fromkeys(layout.racks, 0))
        self.sizes: Counter[int] = Counter(dict.fromkeys(layout.racks, 0))
        self.leaders: Counter[int] = Counter(dict.fromkeys(layout.racks, 0))
        self.topic_counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """How many replicas of a topic each broker has."""
        for place, replicas in self.replicas.items():
            self.leaders[replicas[0]] += 1
            for broker in replicas:
                self._count(place, broker, 1)

    @property
    def targets(self) -> Targets:
        """Those partitions whose replicas are others than at the beginning, or in another order."""
        return {place: replicas for place, replicas in self.replicas.items() if replicas != self.layout.partitions[place].replicas}

    def size_of(self, place: TopicPartition) -> int:
        """What one replica of it takes."""
        return self.layout.partitions[place].size_bytes

    def capacity(self, broker: int) -> float:
        """How much a broker is to have, compared with the mean."""
        return self.layout.capacities.get(broker, 1.0)

    def replace(self, place: TopicPartition, old: int, new: int) -> None:
        """Move a replica to another broker; it keeps its rank."""
        replicas = self.replicas[place]
        assert new not in replicas
        if replicas[0] == old:
            self.leaders[old] -= 1
            self.leaders[new] += 1
        self.replicas[place] = tuple(new if broker == old else broker for broker in replicas)
        self._count(place, old, -1)
        self._count(place, new, 1)

    def set_replicas(self, place: TopicPartition, replicas: Replicas) -> None:
        """Give a partition these replicas, whatever it had."""
        before, self.replicas[place] = self.replicas[place], replicas
        self.leaders[before[0]] -= 1
        self.leaders[replicas[0]] += 1
        for broker in set(before) - set(replicas):
            self._count(place, broker, -1)
        for broker in set(replicas) - set(before):
            self._count(place, broker, 1)

    def lead(self, place: TopicPartition, leader: int) -> None:
        """Let another of its replicas be the preferred leader: the two change their ranks."""
        first = self.replicas[place][0]
        swapped = {first: leader, leader: first}
        self.replicas[place] = tuple(swapped.get(broker, broker) for broker in self.replicas[place])
        self.leaders[first] -= 1
        self.leaders[leader] += 1

    def emptiest(self, place: TopicPartition, kept: Collection[int], allowed: Collection[int]) -> int | None:
        """The broker for one more replica of a partition: in as many racks as possible, then where there is least.

        Least is the sum of its shares of all bytes, of all replicas, and, with less weight, of the replicas of the topic; for what it is to
        have.
        """
        candidates = [broker for broker in allowed if broker not in kept]
        if not candidates:
            return None
        bytes_each = max(sum(self.sizes[broker] for broker in allowed) / len(allowed), 1)
        count_each = max(sum(self.counts[broker] for broker in allowed) / len(allowed), 1)
        of_topic = self.topic_counts[place.topic]
        topic_each = max(sum(of_topic[broker] for broker in allowed) / len(allowed), 1)

        def rank(broker: int) -> tuple[int, float, int]:
            racks = self.layout.rack_count([*kept, broker])
            load = self.sizes[broker] / bytes_each + self.counts[broker] / count_each + TOPIC_WEIGHT * of_topic[broker] / topic_each
            return -racks, load / self.capacity(broker), broker

        return min(candidates, key=rank)

    def keeps_racks(self, place: TopicPartition, old: int, new: int) -> bool:
        """Whether the partition is spread over as many racks as now when a replica moves so."""
        racks, replicas = self.layout.racks, self.replicas[place]
        if (racks.get(old) or old) == (racks.get(new) or new):
            return True
        moved = [new if broker == old else broker for broker in replicas]
        return self.layout.rack_count(moved) >= self.layout.rack_count(replicas)

    def _count(self, place: TopicPartition, broker: int, by: int) -> None:
        self.counts[broker] += by
        self.sizes[broker] += by * self.size_of(place)
        self.topic_counts[place.topic][broker] += by
