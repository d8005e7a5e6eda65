"""Transactions as compaction goes through a log: which batches belong to an aborted one, and which markers have nothing left to mark.

Pure; the rules are those of Kafka's `CleanedTransactionMetadata`. Batches come in the order of the log, from its start or from the dirty
part on. The records of an aborted transaction can go. A marker can go when no batch of its transaction was seen, not even an empty one:
that is so in the round after its last batch has gone. Until then the entry of an aborted transaction stays in the index.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from millstream.log.transactions.marker import read_marker
from millstream.log.transactions.open_transactions import AbortedTransaction
from millstream.wire.batch import BatchHeader


class CleanedTransactions:
    """The transactions that are open at the batch that was read last, and those that will be aborted."""

    __slots__ = ("_aborted", "_aborting", "_committing", "_seen")

    def __init__(self) -> None:
        self._aborted: list[tuple[int, AbortedTransaction]] = []
        """Those that begin later, by their first offset; some may be there twice."""
        self._aborting: dict[int, AbortedTransaction] = {}
        """By producer id, those that have begun."""
        self._seen: set[int] = set()
        """Producer ids of those of `_aborting` that have a batch left."""
        self._committing: set[int] = set()
        """Producer ids of transactions that are not aborted and have a batch left."""

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Take note of transactions that were aborted; before the batches of the segments in which they lie."""
        for transaction in aborted:
            heappush(self._aborted, (transaction.first_offset, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of data belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        if header.producer_id in self._aborting:
            self._seen.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def end(self, header: BatchHeader, batch: memoryview) -> tuple[bool, AbortedTransaction | None]:
        """A control batch: whether it can go, and the aborted transaction that the index has to keep for it."""
        if not header.is_transactional:
            return False, None
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True, None
        marker, producer_id = read_marker(batch), header.producer_id
        if marker is None:
            return False, None
        if marker.is_commit:
            is_needed = producer_id in self._committing
            self._committing.discard(producer_id)
            return not is_needed, None
        aborted = self._aborting.pop(producer_id, None)
        if aborted is None or producer_id not in self._seen:
            return True, None
        self._seen.discard(producer_id)
        return False, aborted

    def _begin_up_to(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            _, transaction = heappop(self._aborted)
            if transaction.last_offset >= offset:
                self._aborting.setdefault(transaction.producer_id, transaction)
