"""The `uniform` assignor where subscriptions differ: who has least gets next, and then what helps is moved.

    1. what is free is given out topic by topic, those with most partitions per reader first, each partition to the reader that has least
       at that moment
    2. partitions of a topic are moved from the reader with most (of those that have one of it) to the one with least, while these differ by
       two or more; topic by topic, and again until nothing moves or the rounds are over

The order and the rules are Kafka's; a tie goes to the member whose id comes first, in Kafka to any. The time is near linear: in the
partitions, and in the subscriptions of all members together. Members are numbers here, and `load * members + number` is one integer that
sorts by load first: heaps of integers, built by C code.

Why no heap has to forget old entries in `_even_out`: the smallest load never falls and the largest never rises. Whoever got a partition has
at most one more than the smallest load, so it is never asked to give one; whoever gave one had two more than the smallest load, and when it
would be the emptiest all differ by one at most.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final
from uuid import UUID

_BALANCING_ROUNDS: Final = 16
"""Each round about halves what is out of balance; Kafka stops there as well."""

Held = Mapping[str, Mapping[UUID, Iterable[int]]]
"""What each member keeps, by topic."""


class _Topic:
    """A topic while it is divided."""

    __slots__ = ("free", "held", "readers", "topic_id")

    def __init__(self, topic_id: UUID, readers: list[int], free: list[int]) -> None:
        self.topic_id = topic_id
        self.readers = readers
        """In ascending order; shared by all topics that the same members read."""
        self.held: dict[int, list[int]] = {}
        self.free = free

    def order(self) -> tuple[float, int, int]:
        """Kafka's: most partitions per reader first, then fewest readers, then by id."""
        count = len(self.free) + sum(map(len, self.held.values()))
        return -count / len(self.readers), len(self.readers), self.topic_id.int


class UnevenAssignment:
    """Divides topics among members that do not all read the same."""

    __slots__ = ("_keys", "_members", "_topics")

    def __init__(self, subscriptions: Mapping[str, frozenset[UUID]], held: Held, free: Mapping[UUID, list[int]]) -> None:
        self._members = sorted(subscriptions)
        readers = _readers([subscriptions[member_id] for member_id in self._members])
        topics = {topic_id: _Topic(topic_id, numbers, free.get(topic_id, [])) for topic_id, numbers in readers.items()}
        self._keys = [0] * len(self._members)
        for number, member_id in enumerate(self._members):
            load = 0
            for topic_id, partitions in held[member_id].items():
                kept = topics[topic_id].held[number] = list(partitions)
                load += len(kept)
            self._keys[number] = load * len(self._members) + number
        self._topics = sorted(topics.values(), key=_Topic.order)

    def divide(self) -> dict[str, dict[UUID, set[int]]]:
        """Who has what in the end."""
        for topic in self._topics:
            if topic.free:
                self._hand_out(topic)
        self._balance()
        divided: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in self._members}
        for topic in self._topics:
            for number, partitions in topic.held.items():
                divided[self._members[number]][topic.topic_id] = set(partitions)
        return divided

    def _hand_out(self, topic: _Topic) -> None:
        """Give each free partition to the reader that has least at that moment."""
        count, keys, held = len(self._members), self._keys, topic.held
        readers = list(map(keys.__getitem__, topic.readers))
        heapify(readers)
        for partition in topic.free:
            number = readers[0] % count
            held.setdefault(number, []).append(partition)
            keys[number] += count
            heapreplace(readers, keys[number])

    def _balance(self) -> None:
        unsettled: set[int] | None = None
        for _ in range(_BALANCING_ROUNDS):
            moved: set[int] = set()
            for topic in self._topics:
                # What has not been touched since it was last looked at is as even as it can be.
                if unsettled is None or not (unsettled.isdisjoint(topic.readers) and moved.isdisjoint(topic.readers)):
                    self._even_out(topic, moved)
            if not moved:
                return
            unsettled = moved

    def _even_out(self, topic: _Topic, moved: set[int]) -> None:
        """Move partitions from the fullest of the members that own any to the emptiest, while that makes the two more equal."""
        count, keys, held = len(self._members), self._keys, topic.held
        owners = [number for number, partitions in held.items() if partitions]
        least = min(map(keys.__getitem__, topic.readers)) // count
        if max(map(keys.__getitem__, owners), default=0) // count - least < 2:
            return
        for number in owners:
            held[number].sort()
        # The fullest first: its load counts negatively, its number as always.
        givers = [number - keys[number] // count * count for number in owners]
        takers = list(map(keys.__getitem__, topic.readers))
        heapify(givers)
        heapify(takers)
        while givers and -(givers[0] // count) - takers[0] // count >= 2:
            giver, taker = givers[0] % count, takers[0] % count
            held.setdefault(taker, []).append(held[giver].pop())
            keys[giver] -= count
            keys[taker] += count
            moved.update((giver, taker))
            heapreplace(takers, keys[taker])
            if held[giver]:
                heapreplace(givers, givers[0] + count)
            else:
                heappop(givers)


def _readers(subscriptions: list[frozenset[UUID]]) -> dict[UUID, list[int]]:
    """The members of each topic, by number. Many members have the same subscription, and many topics the same readers."""
    members: dict[frozenset[UUID], list[int]] = {}
    for number, subscription in enumerate(subscriptions):
        members.setdefault(subscription, []).append(number)
    kinds = list(members.values())
    kinds_of: dict[UUID, list[int]] = {}
    for kind, subscription in enumerate(members):
        for topic_id in subscription:
            kinds_of.setdefault(topic_id, []).append(kind)
    combined: dict[tuple[int, ...], list[int]] = {}
    readers = {}
    for topic_id, together in kinds_of.items():
        combination = tuple(together)
        if combination not in combined:
            combined[combination] = sorted(number for kind in combination for number in kinds[kind])
        readers[topic_id] = combined[combination]
    return readers
