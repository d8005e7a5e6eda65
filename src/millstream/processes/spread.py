"""Gives the replicas of all partitions to other brokers than those that had them: evenly, and with as few moves as that takes. Pure.

Every topic is spread over the brokers by itself, so that its load is; and all topics together. A replica stays where it is as long as
neither asks for a move. Where there are fewer brokers than a partition has replicas, those stay that are in sync, its leader first.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.topic_partition import TopicPartition

States = Mapping[TopicPartition, PartitionState]


class Place(NamedTuple):
    """One replica of a partition, by the broker that has it."""

    partition: TopicPartition
    broker: int


def spread(states: States, brokers: Collection[int]) -> dict[Place, int]:
    """Which broker gets each replica; one that is left out is given up."""
    return _Spreading(states, sorted(brokers)).run()


def moved(state: PartitionState, targets: Mapping[int, int]) -> PartitionState:
    """The partition when its replicas are on other brokers, by where they were; those that are not named are given up."""
    in_sync, eligible = _mapped(state.in_sync_replicas, targets), _mapped(state.eligible_leaders, targets)
    replicas = _mapped(state.replicas, targets)
    adding, removing = _mapped(state.adding_replicas, targets), _mapped(state.removing_replicas, targets)
    new = state._replace(
        replicas=replicas,
        leader=targets.get(state.leader, NO_LEADER),
        in_sync_replicas=in_sync,
        eligible_leaders=eligible,
        last_leader=targets.get(state.last_leader, NO_LEADER),
        # A reassignment of which one side is given up is over.
        adding_replicas=() if len(adding) == len(replicas) else adding,
        removing_replicas=() if len(removing) == len(replicas) else removing,
    )
    # An epoch has one leader.
    return new if new == state else new._replace(leader_epoch=state.leader_epoch + 1)


def _mapped(brokers: Sequence[int], targets: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(targets[broker] for broker in brokers if broker in targets)


class _Spreading:
    def __init__(self, states: States, brokers: Sequence[int]) -> None:
        self._brokers = brokers
        self._places = [Place(name, replica) for name, state in sorted(states.items()) for replica in _kept(state, at_most=len(brokers))]
        self._on: dict[TopicPartition, set[int]] = {name: set(state.replicas) for name, state in states.items()}
        """Where a partition is or was: nothing is moved there as long as there is another broker."""
        self._of_topic: dict[str, Counter[int]] = defaultdict(Counter)
        self._in_all: Counter[int] = Counter()
        self._result: dict[Place, int] = {}

    def run(self) -> dict[Place, int]:
        strangers = []
        for place in self._places:
            if place.broker in self._brokers:
                self._put(place, place.broker)
            else:
                strangers.append(place)
        for place in strangers:
            self._put(place, self._emptiest(place))
        for place in self._places:
            self._improve(place, by_topic=True)
        # Each move makes the fullest and the emptiest more alike, so there is an end.
        while sum(self._improve(place, by_topic=False) for place in self._places):
            continue
        return self._result

    def _put(self, place: Place, broker: int) -> None:
        self._result[place] = broker
        self._on[place.partition].add(broker)
        self._of_topic[place.partition.topic][broker] += 1
        self._in_all[broker] += 1

    def _emptiest(self, place: Place) -> int:
        own, counts = self._on[place.partition], self._of_topic[place.partition.topic]
        # With as many replicas as brokers there is always one that has none of the partition; who was left out of it may have been it.
        free = [broker for broker in self._brokers if broker not in own] or self._unused(place)
        return min(free, key=lambda broker: (counts[broker], self._in_all[broker], broker))

    def _unused(self, place: Place) -> list[int]:
        used = {broker for other, broker in self._result.items() if other.partition == place.partition}
        return [broker for broker in self._brokers if broker not in used]

    def _improve(self, place: Place, *, by_topic: bool) -> bool:
        """Move the replica if there is a broker with at least two fewer: of the topic, or of all without making the topic less even."""
        here, own, counts = self._result[place], self._on[place.partition], self._of_topic[place.partition.topic]
        free = [broker for broker in self._brokers if broker not in own]
        if by_topic:
            better = [broker for broker in free if counts[broker] + 2 <= counts[here]]
        else:
            better = [broker for broker in free if self._in_all[broker] + 2 <= self._in_all[here] and counts[broker] < counts[here]]
        if not better:
            return False
        target = min(better, key=lambda broker: (counts[broker] if by_topic else 0, self._in_all[broker], broker))
        counts[here] -= 1
        self._in_all[here] -= 1
        if here != place.broker:
            own.discard(here)
        self._put(place, target)
        return True


def _kept(state: PartitionState, *, at_most: int) -> list[int]:
    """The replicas that stay, in their order."""
    # Who led last has everything that is committed only if no replica is known to have it.
    ranked = list(dict.fromkeys((state.leader, *state.in_sync_replicas, *state.eligible_leaders, state.last_leader, *state.replicas)))
    best = sorted(state.replicas, key=ranked.index)[:at_most]
    return [replica for replica in state.replicas if replica in best]
