"""The driver as a producer: only the latest one can store which transactions of tasks are to be committed.

    driver A    take over ── read the record ── look at the transactions ───────── (pauses) ────────── store ✗ fenced
    driver B                                                  take over ── read ── look ── store ── EndTxn ── ... ── store

A record is stored in a transaction of the driver's own transactional id. A driver takes the id over in every commit, before it reads the
record: what it reads then can only be replaced by itself, until another driver takes over. If that is not the record which its tasks have
seen, another driver has decided in between. So storing a record is a compare-and-set, and no process has to stay alive between two
micro-batches for it.
"""

from collections.abc import Callable
from typing import Final, Protocol

from millstream.client.errors import ClientError
from millstream.client.transactions import OpenTransaction
from millstream.errors import InvalidProducerEpoch
from millstream.transaction_errors import InvalidProducerIdMapping, ProducerFenced

LONGEST_DECISION_MS: Final = 60_000
"""How long the transaction of a record may be open: it takes two requests."""


class TakenOver(ClientError):
    """Another driver decides about this query now."""


class RecordTransactions(Protocol):
    """What coordinators do; `client.transactions` is the real one."""

    def begin(self, transactional_id: str, *, timeout_ms: int) -> OpenTransaction: ...
    def add_group(self, opened: OpenTransaction, group_id: str) -> None: ...
    def commit(self, opened: OpenTransaction) -> OpenTransaction: ...


class Driver:
    """The driver of one query, for one commit."""

    def __init__(self, transactions: RecordTransactions, transactional_id: str, *, timeout_ms: int) -> None:
        self._transactions = transactions
        self._id = transactional_id
        self._timeout_ms = min(timeout_ms, LONGEST_DECISION_MS)
        self._opened: OpenTransaction | None = None

    def take_over(self) -> None:
        """Fence every former driver, and abort the record that one has not stored to the end."""
        self._opened = self._transactions.begin(self._id, timeout_ms=self._timeout_ms)

    def store(self, group_id: str, write: Callable[[OpenTransaction], None]) -> None:
        """Commit to this group, in a transaction, what `write` writes; raises `TakenOver`."""
        assert self._opened is not None, "a driver that has not taken over"
        try:
            self._transactions.add_group(self._opened, group_id)
            write(self._opened)
            self._opened = self._transactions.commit(self._opened)
        except (InvalidProducerEpoch, ProducerFenced, InvalidProducerIdMapping) as error:
            raise taken_over(f"its transactional id {self._id} was fenced ({type(error).__name__})") from None


def taken_over(reason: str) -> TakenOver:
    """The sentence for whoever runs the former driver."""
    return TakenOver(
        f"another driver has taken this query over: {reason}. This one stored nothing over what the other has committed, and stops. If "
        "two queries run from this checkpoint or from copies of it, stop one of them; if not, start the query again: it goes on where its "
        "checkpoint ends"
    )
