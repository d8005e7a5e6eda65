"""The segments of one log, in order: a sorted list of base offsets in memory, searched by halving (section 3.1 of the paper).

Never empty once the log is open; the last one is the active segment.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from millstream.log.retention import SegmentFacts
from millstream.log.segment import Segment


class Segments:
    """Segments sorted by base offset."""

    __slots__ = ("_base_offsets", "_segments")

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._segments: list[Segment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self._segments[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    def number_holding(self, offset: int) -> int:
        """Number of the segment in whose range the offset lies; -1 if it is before the first."""
        return bisect_right(self._base_offsets, offset) - 1

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds the offset and all after it."""
        return self._segments[max(0, self.number_holding(offset)) :]

    def facts(self, *, log_end_offset: int) -> list[SegmentFacts]:
        """What retention wants to know of each segment."""
        ends = [*self._base_offsets[1:], log_end_offset]
        return [SegmentFacts(end, segment.size_bytes, segment.age_timestamp) for end, segment in zip(ends, self._segments, strict=True)]

    def add(self, segment: Segment) -> None:
        """Append the new active segment."""
        assert not self._base_offsets or segment.base_offset > self._base_offsets[-1], "segments are added in order"
        self._base_offsets.append(segment.base_offset)
        self._segments.append(segment)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put one segment in the place of neighbours; it begins where the first of them did."""
        number = self._base_offsets.index(old[0].base_offset)
        assert self._segments[number : number + len(old)] == list(old), "they are neighbours"
        assert new.base_offset == old[0].base_offset
        self._segments[number : number + len(old)] = [new]
        self._base_offsets[number : number + len(old)] = [new.base_offset]

    def remove_first(self, count: int) -> list[Segment]:
        """Take the oldest `count` segments out."""
        removed = self._segments[:count]
        del self._segments[:count], self._base_offsets[:count]
        return removed

    def remove_above(self, offset: int) -> list[Segment]:
        """Take out the segments that start above the offset."""
        number = bisect_right(self._base_offsets, offset)
        removed = self._segments[number:]
        del self._segments[number:], self._base_offsets[number:]
        return removed
