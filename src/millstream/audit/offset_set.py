"""A set of offsets as sorted, disjoint, half-open intervals that do not touch: what a tier counted of one partition.

Kept flat, as `(start, end, start, end, ...)`, strictly ascending. A set is a value: every operation makes a new one. The union of what was
reported absorbs what was reported twice, and the difference of two tiers is the loss between them, with its offsets.

Event times at random break a set into as many intervals as it has offsets. `coarsened` bounds that: it closes the smallest gaps and
remembers how many offsets lie in them as `holes`, so that the length stays right, but which offsets are in is no longer known. Of such a
set the operations see the intervals, holes and all; ask `is_exact` before relying on a difference.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

MAX_INTERVALS: Final = 10_000
"""Of one bucket and partition: more becomes coarse."""
_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class OffsetSet:
    """Offsets of one partition."""

    bounds: tuple[int, ...] = ()
    holes: int = 0
    """Offsets inside of the intervals that are not in the set; which ones is not known."""

    @classmethod
    def of(cls, *intervals: tuple[int, int]) -> Self:
        """The union of half-open intervals, in any order; empty ones are left out."""
        return cls(_merged(sorted(interval for interval in intervals if interval[0] < interval[1])))

    @classmethod
    def from_offsets(cls, offsets: Iterable[int]) -> Self:
        """These offsets, in any order."""
        return cls(_merged((offset, offset + 1) for offset in sorted(offsets)))

    def __len__(self) -> int:
        return sum(self.bounds[1::2]) - sum(self.bounds[::2]) - self.holes

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __contains__(self, offset: int) -> bool:
        return bisect_right(self.bounds, offset) % 2 == 1

    @property
    def is_exact(self) -> bool:
        """Whether the intervals hold the offsets of the set and no others."""
        return not self.holes

    @property
    def start(self) -> int:
        """The first offset of a set that is not empty."""
        return self.bounds[0]

    @property
    def end(self) -> int:
        """The offset after the last one of a set that is not empty."""
        return self.bounds[-1]

    def intervals(self) -> Iterator[tuple[int, int]]:
        """Start and end of each interval, ascending."""
        bounds = iter(self.bounds)
        return zip(bounds, bounds, strict=True)

    def __or__(self, other: "OffsetSet") -> "OffsetSet":
        if not other.bounds:
            return self
        if not self.bounds:
            return other
        if self.holes or other.holes:
            return _coarse_union(self, other)
        return OffsetSet(_union(self.bounds, other.bounds))

    def __and__(self, other: "OffsetSet") -> "OffsetSet":
        return OffsetSet(_intersection(self.bounds, other.bounds))

    def __sub__(self, other: "OffsetSet") -> "OffsetSet":
        return OffsetSet(_intersection(self.bounds, (_LOWEST, *other.bounds, _HIGHEST)))

    def coarsened(self, most: int = MAX_INTERVALS) -> "OffsetSet":
        """The same number of offsets in at most `most` intervals: the smallest gaps are closed."""
        bounds = self.bounds
        if len(bounds) <= 2 * most:
            return self
        gaps = sorted(range(1, len(bounds) - 1, 2), key=lambda index: bounds[index + 1] - bounds[index], reverse=True)
        kept = sorted(gaps[: most - 1])
        edges = [bounds[0], *(edge for index in kept for edge in bounds[index : index + 2]), bounds[-1]]
        return OffsetSet(tuple(edges), _width(edges) - len(self))


EMPTY: Final = OffsetSet()


def _merged(intervals: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """The bounds of intervals that come in the order of their starts."""
    bounds: list[int] = []
    for start, end in intervals:
        if bounds and start <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += (start, end)
    return tuple(bounds)


def _union(ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
    if len(ours) < len(theirs):
        ours, theirs = theirs, ours
    # Only what the smaller set reaches into is looked at: reports grow a set at its end.
    first = bisect_left(ours, theirs[0]) & ~1
    last = (bisect_right(ours, theirs[-1]) + 1) & ~1
    touched = sorted([*_pairs(ours[first:last]), *_pairs(theirs)])
    return ours[:first] + _merged(touched) + ours[last:]


def _pairs(bounds: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return zip(bounds[::2], bounds[1::2], strict=True)


def _intersection(ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
    found: list[int] = []
    mine = their = 0
    while mine < len(ours) and their < len(theirs):
        start = max(ours[mine], theirs[their])
        end = min(ours[mine + 1], theirs[their + 1])
        if start < end:
            found += (start, end)
        if ours[mine + 1] < theirs[their + 1]:
            mine += 2
        else:
            their += 2
    return tuple(found)


def _coarse_union(ours: OffsetSet, theirs: OffsetSet) -> OffsetSet:
    """What is in both cannot be known where one has holes: it is taken to be nothing, as far as there is room."""
    bounds = _union(ours.bounds, theirs.bounds)
    return OffsetSet(bounds, max(_width(bounds) - len(ours) - len(theirs), 0))


def _width(bounds: Iterable[int]) -> int:
    edges = list(bounds)
    return sum(edges[1::2]) - sum(edges[::2])
