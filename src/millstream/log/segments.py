"""The segments of one log, in order: a sorted list of base offsets in memory, searched by halving (section 3.1 of the paper).

Never empty once the log is open; the last one is the active segment.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

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

    def unlink_above(self, offset: int) -> None:
        """Remove the segments that start above the offset with their files, the newest first."""
        for segment in reversed(self.remove_above(offset)):
            segment.unlink()

    def release(self) -> None:
        """Close the files until they are needed again."""
        for segment in self._segments:
            segment.release()

    def release_sealed(self) -> None:
        """Close the files of all segments but the active one's .log: readers that went by do not come back soon."""
        for segment in self._segments[:-1]:
            segment.release()
        self.active.close_indexes()

    def close_idle(self) -> None:
        """Close the files that only readers need, and leave everything else alone. May be called in any thread."""
        *sealed, active = self._segments
        for segment in sealed:
            segment.close_files()
        active.close_indexes()
