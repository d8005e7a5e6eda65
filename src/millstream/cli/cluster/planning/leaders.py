"""Evens out how many partitions each broker leads by preference, with the replicas that there are: only their order changes. Pure.

A broker that leads too many hands one on to another replica of it; if that one then has too many it hands on another, and so on until
one is reached that has too few. The shortest such chain is taken, so as few partitions as possible change their leader.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import pairwise

from millstream.cli.cluster.planning.placement import Placement
from millstream.topic_partition import TopicPartition

TOLERANCE = 0.1
"""Brokers that differ by less than this part of the mean are even."""

_Edges = defaultdict[int, defaultdict[int, dict[TopicPartition, None]]]
"""What a broker leads and another one could, in a fixed order."""


def balance_leaders(placement: Placement, places: Iterable[TopicPartition] | None = None) -> None:
    """Change preferred leaders, of these partitions or all, until the brokers that are there lead equally many, as far as they can."""
    edges: _Edges = defaultdict(lambda: defaultdict(dict))
    for place in sorted(placement.replicas if places is None else places):
        _connect(placement, edges, place)
    while _even_out(placement, edges):
        continue


def _even_out(placement: Placement, edges: _Edges) -> bool:
    """Go through the brokers, those that lead most first, until each has nothing to hand on; whether any had."""
    brokers, leaders = sorted(placement.layout.racks), placement.leaders
    allowed = max(1.0, TOLERANCE * sum(leaders[broker] for broker in brokers) / max(len(brokers), 1))
    has_changed = False
    settled: set[int] = set()
    while len(settled) < len(brokers):
        most = max((broker for broker in brokers if broker not in settled), key=lambda broker: leaders[broker])
        chain = _chain(placement, edges, most, below=leaders[most] - allowed)
        if chain is None:
            settled.add(most)
            continue
        for giver, taker in pairwise(chain):
            _hand_on(placement, edges, giver, taker)
        has_changed = True
    return has_changed


def _connect(placement: Placement, edges: _Edges, place: TopicPartition) -> None:
    leader, *others = placement.replicas[place]
    for other in others:
        if other in placement.layout.racks:
            edges[leader][other][place] = None


def _chain(placement: Placement, edges: _Edges, start: int, *, below: float) -> list[int] | None:
    """The shortest way to a broker that leads so few that one more is an improvement; to the one that leads least among those."""
    before: dict[int, int] = {start: start}
    level = [start]
    while level:
        following = []
        for broker in level:
            for other, partitions in edges[broker].items():
                if partitions and other not in before:
                    before[other] = broker
                    following.append(other)
        found = [broker for broker in following if placement.leaders[broker] < below]
        if found:
            return _path(before, min(found, key=lambda broker: (placement.leaders[broker], broker)))
        level = following
    return None


def _path(before: dict[int, int], end: int) -> list[int]:
    path = deque([end])
    while before[path[0]] != path[0]:
        path.appendleft(before[path[0]])
    return list(path)


def _hand_on(placement: Placement, edges: _Edges, giver: int, taker: int) -> None:
    place = next(iter(edges[giver][taker]))
    for other in placement.replicas[place][1:]:
        edges[giver][other].pop(place, None)
    placement.lead(place, taker)
    _connect(placement, edges, place)
