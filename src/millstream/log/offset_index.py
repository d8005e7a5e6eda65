"""From offsets to positions in a segment: `<base offset>.index`.

    entry: 8 bytes = 4 bytes offset relative to the base offset of the segment, 4 bytes position in the .log file, both big-endian

An entry says: the batch whose *last* offset this is starts at this position (as Kafka writes it). About one entry per
`index.interval.bytes` of log; the first batch never has one. `position_for` answers a position at or before the batch that holds an offset,
from where batches are walked.
"""

from pathlib import Path
from struct import Struct

from millstream.files import Files
from millstream.log.sparse_index import SparseIndex

ENTRY = Struct(">ii")
_KEY = Struct(">i")


class OffsetIndex(SparseIndex):
    """The sparse offset index of one segment; keys are relative offsets, values are positions."""

    __slots__ = ()

    def __init__(self, files: Files, path: Path, *, written: int = 0) -> None:
        super().__init__(files, path, entry=ENTRY, first_field=_KEY, written=written)

    def position_for(self, relative_offset: int) -> int:
        """A position at or before the start of the batch that holds the offset."""
        number = self.last_at_or_below(relative_offset)
        return self.entry(number)[1] if number >= 0 else 0

    def truncate_from(self, relative_offset: int) -> None:
        """Drop the entries of batches that end at or after the offset."""
        number = self.last_at_or_below(relative_offset - 1)
        self.truncate(number + 1)
