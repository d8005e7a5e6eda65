"""Evens out what brokers keep: bytes first, then replicas, then leaders; with as few bytes moved as that takes. Pure.

Brokers are even when the fullest and the emptiest differ by less than a tenth of the mean (bytes: or by less than a mebibyte; replicas and
leaders: or by one). A step takes something off a full broker and gives it to an emptier one: one replica, or two that change places. Which
one follows from what both have too much: with 10 GB and 5 replicas to give, one of about 2 GB. So both become even together, and no byte
is moved that does not have to be.

Where brokers (or disks, whose plans are made here, too) are not to have the same, what they have is compared for their capacity: a disk of
twice the size is as full as another one with twice the bytes.

What always holds: a partition keeps its replication factor and is spread over no fewer racks, and every step makes the sum of squares of
the deviations smaller. So there is an end, the result is never worse, and nothing happens in a cluster that is even.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from millstream.cli.cluster.planning.layout import Layout, Targets
from millstream.cli.cluster.planning.leaders import TOLERANCE, balance_leaders
from millstream.cli.cluster.planning.placement import Placement
from millstream.topic_partition import TopicPartition

SMALLEST_GAP_BYTES: Final = 1024 * 1024
_MOST_LOOKED_AT: Final = 200
_MOST_SWAPS: Final = 32
_LEAST_GAIN: Final = 1e-9

_Entry = tuple[int, int, str]
"""Size, number and topic: in this order partitions of one size come from all topics by turns."""


def balance(layout: Layout) -> Targets:
    """What to change so that the brokers that are there have equally much."""
    placement = Placement(layout)
    balance_replicas(placement)
    balance_leaders(placement)
    return placement.targets


def balance_replicas(placement: Placement) -> None:
    """Move replicas between the brokers that are there."""
    # What could not move between two brokers may, when other replicas have moved: so until a round finds nothing.
    while _Round(placement, keeps_topics=True).run() or _Round(placement, keeps_topics=False).run():
        continue


class _Round:
    """As many steps as help; with `keeps_topics` only those that leave no topic less evenly spread than it is.

    What a broker can give to another is listed once, and only becomes less.
    """

    def __init__(self, placement: Placement, *, keeps_topics: bool) -> None:
        self._placement = placement
        self._keeps_topics = keeps_topics
        self._brokers = sorted(placement.layout.racks)
        self._entries: defaultdict[int, list[_Entry]] = defaultdict(list)
        self._candidates: dict[tuple[int, int], list[_Entry]] = {}
        self._exhausted: set[tuple[int, int, bool]] = set()
        """Pairs with nothing to move, or nothing to exchange."""
        for place, replicas in placement.replicas.items():
            for broker in replicas:
                self._entries[broker].append((placement.size_of(place), place.partition, place.topic))
        for entries in self._entries.values():
            entries.sort()
        count = max(len(self._brokers), 1)
        self._bytes_each = max(sum(placement.sizes[broker] for broker in self._brokers) / count, SMALLEST_GAP_BYTES / TOLERANCE)
        self._count_each = max(sum(placement.counts[broker] for broker in self._brokers) / count, 1.0)
        self._bytes_gap = TOLERANCE * self._bytes_each
        self._count_gap = max(TOLERANCE * self._count_each, 1.0)

    def run(self) -> bool:
        """Whether anything was moved."""
        has_moved = False
        while self._move_one() or (not self._keeps_topics and self._swap_two()):
            has_moved = True
        return has_moved

    def _move_one(self) -> bool:
        for full, empty in chain(self._uneven_bytes(), self._uneven_counts()):
            if (full, empty, False) in self._exhausted:
                continue
            entry = self._best_move(full, empty)
            if entry is not None:
                self._placement.replace(_place(entry), full, empty)
                return True
            self._exhausted.add((full, empty, False))
        return False

    def _swap_two(self) -> bool:
        for full, empty in self._uneven_bytes():
            if (full, empty, True) in self._exhausted:
                continue
            pair = self._best_swap(full, empty)
            if pair is not None:
                self._placement.replace(_place(pair[0]), full, empty)
                self._placement.replace(_place(pair[1]), empty, full)
                return True
            self._exhausted.add((full, empty, True))
        return False

    def _uneven_bytes(self) -> Iterator[tuple[int, int]]:
        return _pairs(self._fill(self._placement.sizes), self._bytes_gap)

    def _uneven_counts(self) -> Iterator[tuple[int, int]]:
        return _pairs(self._fill(self._placement.counts), self._count_gap)

    def _fill(self, load: Mapping[int, int]) -> dict[int, float]:
        """How full the brokers are."""
        return {broker: load[broker] / self._placement.capacity(broker) for broker in self._brokers}

    def _best_move(self, full: int, empty: int) -> _Entry | None:
        """Of the replicas whose move helps, the one nearest to the size that suits both surpluses."""
        for entry in self._around(full, empty, self._wanted_bytes(full, empty), limit=_MOST_LOOKED_AT):
            if self._gain(full, empty, entry[0], count=1) > _LEAST_GAIN:
                return entry
        return None

    def _wanted_bytes(self, full: int, empty: int) -> float:
        bytes_gap, count_gap = self._gaps(full, empty)
        if bytes_gap <= self._bytes_gap:
            return 0.0
        return bytes_gap / count_gap if count_gap > 1 else bytes_gap / (2 * self._effect(full, empty))

    def _best_swap(self, full: int, empty: int) -> tuple[_Entry, _Entry] | None:
        """Two replicas that change places, nearest to what makes the bytes even."""
        half = self._gaps(full, empty)[0] / (2 * self._effect(full, empty))
        best: tuple[float, _Entry, _Entry] | None = None
        for given in self._around(full, empty, half, limit=_MOST_SWAPS):
            for taken in self._around(empty, full, given[0] - half, limit=_MOST_SWAPS):
                gain = self._gain(full, empty, given[0] - taken[0], count=0)
                if gain > max(_LEAST_GAIN, best[0] if best else 0.0):
                    best = gain, given, taken
        return None if best is None else best[1:]

    def _around(self, old: int, new: int, size_bytes: float, *, limit: int) -> Iterator[_Entry]:
        """What one broker can give to another, the nearest to a size first."""
        entries = self._candidates.get((old, new))
        if entries is None:
            entries = self._candidates[old, new] = [entry for entry in self._entries[old] if self._may_move(entry, old, new)]
        above = bisect_left(entries, (int(size_bytes),))
        below = above - 1
        left = limit
        while left and (below >= 0 or above < len(entries)):
            is_above = below < 0 or (above < len(entries) and entries[above][0] - size_bytes <= size_bytes - entries[below][0])
            place = above if is_above else below
            entry = entries[place]
            if self._may_move(entry, old, new):
                left -= 1
                yield entry
                above, below = (above + 1, below) if is_above else (above, below - 1)
            else:
                del entries[place]
                above, below = (above, below) if is_above else (above - 1, below - 1)

    def _may_move(self, entry: _Entry, old: int, new: int) -> bool:
        place = _place(entry)
        replicas = self._placement.replicas[place]
        if old not in replicas or new in replicas:
            return False
        if self._keeps_topics:
            of_topic = self._placement.topic_counts[place.topic]
            if of_topic[old] <= of_topic[new]:
                return False
        return self._placement.keeps_racks(place, old, new)

    def _gain(self, full: int, empty: int, size_bytes: int, *, count: int) -> float:
        """By how much the sum of squares of both deviations becomes smaller."""
        bytes_gap, count_gap = self._gaps(full, empty)
        effect = self._effect(full, empty)
        by_bytes = size_bytes * (bytes_gap - effect * size_bytes) / self._bytes_each**2
        by_count = count * (count_gap - effect * count) / self._count_each**2
        return by_bytes + by_count

    def _gaps(self, full: int, empty: int) -> tuple[float, float]:
        """How much fuller one is than the other: in bytes, and in replicas."""
        sizes, counts = self._placement.sizes, self._placement.counts
        one, other = self._placement.capacity(full), self._placement.capacity(empty)
        return sizes[full] / one - sizes[empty] / other, counts[full] / one - counts[empty] / other

    def _effect(self, full: int, empty: int) -> float:
        """By how much both come nearer to each other for each byte that moves, half of it: 1 where all are to have the same."""
        return (1 / self._placement.capacity(full) + 1 / self._placement.capacity(empty)) / 2


def _place(entry: _Entry) -> TopicPartition:
    return TopicPartition(entry[2], entry[1])


def _pairs(fill: Mapping[int, float], least_gap: float) -> Iterator[tuple[int, int]]:
    """Brokers that are not even, the fullest and the emptiest first."""
    ordered = sorted(fill, key=lambda broker: fill[broker])
    for full in reversed(ordered):
        for empty in ordered:
            if fill[full] - fill[empty] <= least_gap:
                break
            yield full, empty
