"""From timestamps to offsets: `<base offset>.timeindex`.

    entry: 12 bytes = 8 bytes timestamp in milliseconds, 4 bytes offset relative to the base offset of the segment, both big-endian

An entry says: up to this offset no record is younger than this timestamp, and the batch that ends at this offset has it. Timestamps and
offsets both grow from entry to entry. An entry is added together with an offset index entry when the largest timestamp has grown, and one
more when the segment is sealed or closed: so the last entry of a closed index is the largest timestamp of its segment.
"""

from pathlib import Path
from struct import Struct

from millstream.files import Files
from millstream.log.sparse_index import SparseIndex

ENTRY = Struct(">qi")


class TimeIndex(SparseIndex):
    """The sparse time index of one segment; keys are timestamps, values are relative offsets."""

    __slots__ = ()

    def __init__(self, files: Files, path: Path, *, written: int = 0) -> None:
        super().__init__(files, path, entry=ENTRY, written=written)

    def maybe_add(self, timestamp: int, relative_offset: int) -> None:
        """Append an entry if the timestamp is news."""
        if timestamp > self.last_key:
            self.add(timestamp, relative_offset)

    def first_at_or_above(self, timestamp: int) -> tuple[int, int] | None:
        """The first entry whose timestamp is not before this one; None if there is none."""
        number = self.last_at_or_below(timestamp - 1) + 1
        if number >= len(self):
            return None
        found, relative_offset = self.entry(number)
        return found, relative_offset

    def truncate_from(self, relative_offset: int) -> None:
        """Drop the entries that speak of offsets from this one on."""
        count = len(self)
        while count and self.entry(count - 1)[1] >= relative_offset:
            count -= 1
        self.truncate(count)
