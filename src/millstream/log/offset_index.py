"""From offsets to positions in a segment: `<base offset>.index`.

    entry: 8 bytes = 4 bytes offset relative to the base offset of the segment, 4 bytes position in the .log file, both big-endian

An entry says: the batch whose *last* offset this is starts at this position (as Kafka writes it). About one entry per
`index.interval.bytes` of log; the first batch never has one. `position_for` answers a position at or before the batch that holds an offset,
from where batches are walked; where batches are large, it mostly is the one of the next entry (`positions_around`).
"""

from bisect import bisect_left
from pathlib import Path
from struct import Struct

from millstream.files import Files
from millstream.log.sparse_index import SparseIndex

ENTRY = Struct(">ii")


class OffsetIndex(SparseIndex):
    """The sparse offset index of one segment; keys are relative offsets, values are positions."""

    __slots__ = ()

    def __init__(self, files: Files, path: Path, *, written: int = 0) -> None:
        super().__init__(files, path, entry=ENTRY, written=written)

    def position_for(self, relative_offset: int) -> int:
        """A position at or before the start of the batch that holds the offset."""
        return self.positions_around(relative_offset)[0]

    def positions_around(self, relative_offset: int) -> tuple[int, int]:
        """The same, and a position at or behind the start of that batch: that of the next entry; -1 if there is none at hand."""
        number = self.last_at_or_below(relative_offset)
        position = self.entry(number)[1] if number >= 0 else 0
        return position, self.entry(number + 1)[1] if self.is_at_hand(number + 1) else -1

    def offset_at_or_after(self, position: int) -> int | None:
        """The relative offset of the first entry that does not lie before the position; None if all do.

        The first of all has to lie behind it: Kafka's search overlooks one that lies just there, and answers are the same as its.
        """
        count = len(self)
        first = 0 if count and self.entry(0)[1] > position else 1
        number = bisect_left(range(count), position, lo=first, hi=max(first, count), key=lambda number: self.entry(number)[1])
        return self.entry(number)[0] if number < count else None

    def truncate_from(self, relative_offset: int) -> None:
        """Drop the entries of batches that end at or after the offset."""
        number = self.last_at_or_below(relative_offset - 1)
        self.truncate(number + 1)
