"""The aborted transactions that one order of compaction is about: those in the indexes of its segments, and what the order says itself."""

from millstream.files import Files
from millstream.log.compaction.cleaning_order import CleaningOrder
from millstream.log.segment import TRANSACTION_INDEX_SUFFIX
from millstream.log.sparse_index import whole_entries
from millstream.log.transactions.aborted_index import ENTRY, AbortedIndex, search_all
from millstream.log.transactions.open_transactions import AbortedTransaction


class OrderedAborted:
    """Finds the aborted transactions of the segments of an order."""

    def __init__(self, files: Files, order: CleaningOrder) -> None:
        self._indexes: dict[int, AbortedIndex] = {}
        for base_offset, _ in order.segments:
            path = order.path / f"{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}"
            if files.exists(path):
                self._indexes[base_offset] = AbortedIndex(files, path, written=max(0, whole_entries(files, path, entry=ENTRY)))
        self._behind = order.aborted_behind

    def has_file(self, base_offset: int) -> bool:
        """Whether the segment that begins there has an index of aborted transactions."""
        return base_offset in self._indexes

    def search(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end); `start` is not before the segment that holds it."""
        bases = list(self._indexes)
        first = next((number for number, base in enumerate(bases) if base >= start), len(bases))
        found, is_complete = search_all((self._indexes[base] for base in bases[max(0, first - 1) :]), start, end)
        return found if is_complete else found + [aborted for aborted in self._behind if aborted.first_offset < end]
