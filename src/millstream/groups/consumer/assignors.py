"""Who reads which partition: the assignors that a KIP-848 group offers, on the side of the broker.

An assignor is given every member with its subscription and what it was assigned before, and answers with a new assignment for all of them.
Every partition of a topic that a member subscribes to gets exactly one member that subscribes to it; no member gets anything else.

    range     neighbouring partitions of each topic, the same numbers of every topic where the numbers fit; static members first, so that a
              rolling restart moves nothing. It does not look at what was assigned before.
    uniform   the same number of partitions for every member (counts differ by at most one where all subscribe to the same topics), and as
              much as possible stays where it was. With differing subscriptions: no partition could move to a member with at least two
              partitions less, up to a bounded number of rounds.

Racks are not considered (Kafka's own assignors ignore them since 4.0, too).
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from millstream.groups.consumer.records import Assignment
from millstream.groups.consumer.uneven_assignment import UnevenAssignment


class Candidate(NamedTuple):
    """A member as an assignor sees it."""

    instance_id: str | None
    topic_ids: frozenset[UUID]
    """What it subscribes to, as far as it exists."""
    assigned: Assignment
    """What it was assigned before."""


Candidates = Mapping[str, Candidate]
"""By member id."""
PartitionCounts = Mapping[UUID, int]
"""Of every topic that a member subscribes to."""
Assignor = Callable[[Candidates, PartitionCounts], dict[str, Assignment]]

_Working = dict[str, dict[UUID, set[int]]]


def canonical(assignment: Mapping[UUID, set[int] | frozenset[int]]) -> Assignment:
    """Topics and partitions in ascending order, nothing empty: equal assignments are equal values."""
    return tuple(
        sorted(((topic_id, tuple(sorted(partitions))) for topic_id, partitions in assignment.items() if partitions), key=_topic_order)
    )


def _topic_order(item: tuple[UUID, tuple[int, ...]]) -> int:
    return item[0].int


def assign_ranges(candidates: Candidates, partition_counts: PartitionCounts) -> dict[str, Assignment]:
    """The `range` assignor."""
    order = sorted(candidates, key=lambda member_id: _range_order(member_id, candidates[member_id].instance_id))
    ranges: dict[str, list[tuple[UUID, tuple[int, ...]]]] = {member_id: [] for member_id in order}
    for topic_id, members in _subscribers(order, candidates).items():
        quota, extra = divmod(partition_counts[topic_id], len(members))
        start = 0
        for index, member_id in enumerate(members):
            end = start + quota + (index < extra)
            if end > start:
                ranges[member_id].append((topic_id, tuple(range(start, end))))
            start = end
    return {member_id: tuple(sorted(topics, key=_topic_order)) for member_id, topics in ranges.items()}


def _range_order(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)


def assign_uniformly(candidates: Candidates, partition_counts: PartitionCounts) -> dict[str, Assignment]:
    """The `uniform` assignor."""
    if not candidates:
        return {}
    kept, free = _keep(candidates, partition_counts)
    subscriptions = {member_id: candidate.topic_ids for member_id, candidate in candidates.items()}
    if len(set(subscriptions.values())) == 1:
        _level(kept, [(topic_id, partition) for topic_id, partitions in free.items() for partition in partitions])
    else:
        kept = UnevenAssignment(subscriptions, kept, free).divide()
    return {member_id: canonical(topics) for member_id, topics in kept.items()}


def _subscribers(member_ids: list[str], candidates: Candidates) -> dict[UUID, list[str]]:
    """The members of each topic, in the order given."""
    subscribers: dict[UUID, list[str]] = {}
    for member_id in member_ids:
        for topic_id in candidates[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    return subscribers


def _keep(candidates: Candidates, partition_counts: PartitionCounts) -> tuple[_Working, dict[UUID, list[int]]]:
    """What every member may keep of what it had, and the partitions without an owner, both in order."""
    unowned = {topic_id: set(range(count)) for topic_id, count in partition_counts.items()}
    kept: _Working = {}
    for member_id, candidate in candidates.items():
        mine = kept[member_id] = {}
        for topic_id, partitions in candidate.assigned:
            if topic_id in candidate.topic_ids:
                left = unowned[topic_id]
                still_there = left.intersection(partitions)
                left -= still_there
                mine[topic_id] = still_there
    wanted = frozenset[UUID]().union(*{candidate.topic_ids for candidate in candidates.values()})
    in_order = sorted(wanted, key=lambda topic_id: topic_id.int)
    return kept, {topic_id: sorted(unowned[topic_id]) for topic_id in in_order}


def _level(kept: _Working, free: list[tuple[UUID, int]]) -> None:
    """All subscribe to the same: each gets the quota, and those that have most already get the partitions beyond it."""
    sizes = {member_id: _size(topics) for member_id, topics in kept.items()}
    quota, extra = divmod(sum(sizes.values()) + len(free), len(kept))
    by_size = sorted(sizes, key=lambda member_id: (-sizes[member_id], member_id))
    quotas = {member_id: quota + (index < extra) for index, member_id in enumerate(by_size)}
    for member_id in by_size:
        if sizes[member_id] > quotas[member_id]:
            free += _give_up(kept[member_id], sizes[member_id] - quotas[member_id])
    hungry = deque((member_id, quotas[member_id] - sizes[member_id]) for member_id in by_size if sizes[member_id] < quotas[member_id])
    for topic_id, partition in free:
        # In turns, so that the partitions of a topic are spread.
        member_id, left = hungry.popleft()
        kept[member_id].setdefault(topic_id, set()).add(partition)
        if left > 1:
            hungry.append((member_id, left - 1))


def _size(topics: Mapping[UUID, set[int]]) -> int:
    return sum(map(len, topics.values()))


def _give_up(topics: dict[UUID, set[int]], count: int) -> list[tuple[UUID, int]]:
    """Take partitions away, first of the topics of which there are most, so that each topic stays spread over the members."""
    ranked = [(rank, topic_id.int, topic_id, p) for topic_id, owned in topics.items() for rank, p in enumerate(sorted(owned))]
    ranked.sort(reverse=True)
    given = [(topic_id, partition) for _, _, topic_id, partition in ranked[:count]]
    for topic_id, partition in given:
        topics[topic_id].remove(partition)
    return given


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that `group.consumer.assignors` and the members use."""
