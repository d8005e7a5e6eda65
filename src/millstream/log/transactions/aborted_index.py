"""The aborted transactions whose marker lies in a segment: `<base offset>.txnindex`.

    entry: 34 bytes = 2 bytes version 0, 8 bytes producer id, 8 bytes first offset, 8 bytes last offset (the marker), 8 bytes last stable
    offset by then, all big-endian

Entries are written in the order of the markers, so last offsets grow from entry to entry. A transaction may begin in an earlier segment, so
a search begins with the segment that holds the first offset that is read and goes on through later ones until an entry says that everything
in the range was decided by then. Most segments have no such index, and no file. What a fetch answers with is in the order of the markers,
as in Kafka.
"""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from millstream.files import Files
from millstream.log.sparse_index import SparseIndex
from millstream.log.transactions.open_transactions import AbortedTransaction

ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0
_LAST_OFFSET: Final = 3
"""Which field of an entry is its key."""


class AbortedSearch(NamedTuple):
    """What one index has for a range of offsets, and whether nothing behind it can have more."""

    found: list[AbortedTransaction]
    is_complete: bool


class AbortedIndex(SparseIndex):
    """The aborted transactions of one segment; keys are the offsets of their markers."""

    __slots__ = ()

    def __init__(self, files: Files, path: Path, *, written: int = 0) -> None:
        super().__init__(files, path, entry=ENTRY, key_field=_LAST_OFFSET, written=written)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker comes after all others."""
        self.add(VERSION, *aborted)

    def search(self, start: int, end: int) -> AbortedSearch:
        """The transactions that overlap [start, end)."""
        found = []
        for _, producer_id, first_offset, last_offset, last_stable_offset in self.entries_from(self.last_at_or_below(start - 1) + 1):
            if first_offset < end:
                found.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset))
            if last_stable_offset >= end:
                return AbortedSearch(found, is_complete=True)
        return AbortedSearch(found, is_complete=False)

    def truncate_from(self, offset: int) -> None:
        """Forget the transactions whose marker lies at or behind the offset."""
        self.truncate(self.last_at_or_below(offset - 1) + 1)

    def is_sound(self, *, base_offset: int) -> bool:
        """Whether its entries can be those of a segment that begins at the offset."""
        last = base_offset - 1
        for number in range(len(self)):
            version, _, first_offset, last_offset, _ = self.entry(number)
            if version != VERSION or last_offset <= last or first_offset > last_offset:
                return False
            last = last_offset
        return True


def search_all(indexes: Iterable[AbortedIndex], start: int, end: int) -> AbortedSearch:
    """What several indexes, in the order of their segments, have for a range of offsets."""
    found: list[AbortedTransaction] = []
    for index in indexes:
        more, is_complete = index.search(start, end)
        found += more
        if is_complete:
            return AbortedSearch(found, is_complete=True)
    return AbortedSearch(found, is_complete=False)
