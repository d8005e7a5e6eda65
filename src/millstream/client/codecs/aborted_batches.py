"""Which batches of a fetch belong to transactions that were aborted: what a reader of committed data leaves out. Pure.

The broker lists the aborted transactions that touch what it sent, each by its producer id and first offset; a transaction ends with its
marker, so the same producer's next one is visible again.

    aborted = AbortedBatches(fetched.aborted_transactions)
    for header, batch in split_batches(fetched.records):
        if aborted.is_visible(header, batch): ...
"""

from collections.abc import Sequence
from typing import Final

from millstream.wire.batch import HEADER_SIZE, BatchHeader

_ABORT: Final = b"\x00\x00"
_MARKER_TYPE: Final = slice(HEADER_SIZE + 7, HEADER_SIZE + 9)
"""Of a marker: its record's sizes and deltas take a byte each, so that its key begins at 5, with a version of two bytes."""


class AbortedBatches:
    """Goes through the batches of one fetch, in their order."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()

    def is_visible(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the records of the next batch are for the reader: no marker, and not aborted."""
        return not (self.is_aborted(header, batch) or header.is_control)

    def is_aborted(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the next batch has records of an aborted transaction."""
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._open.add(self._coming.pop()[0])
        if header.is_control:
            if bytes(batch[_MARKER_TYPE]) == _ABORT:
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open
