"""How the driver ends the transactions that tasks have left open: all of them, or none.

    tasks       begin ── write ── leave it open ──┐ (id, producer id, epoch)
    driver                                        └► look ── fence the dead ── DECISION ── EndTxn ── EndTxn ── ...   Spark's checkpoint

Until the decision is written nothing is committed, and a micro-batch that comes again begins its transactions anew, which aborts what it
had left. From then on it is committed, whatever happens: when the micro-batch comes again its tasks write nothing, and EndTxn is sent for
every transaction of the decision, as often as it takes; a coordinator recognises one that it has ended already. Which driver may write the
decision is said in `exactly_once.driver`.

What Kafka has not (before KIP-939) is a transaction that waits without a time limit: one that is still open when `transaction.timeout.ms`
is over is aborted by its coordinator. If that happens before the decision the micro-batch fails as a whole. If it happens after it, between
two EndTxns, a part is committed and a part is lost: `PartlyCommitted` stops the query, and a person has to decide.

This module decides and waits for nothing: `Transactions` and `Admin` are its border. Tests put a model there that dies at every step.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from millstream.client.admin.transaction_admin import KnownTransaction
from millstream.client.errors import ClientError
from millstream.client.transactions import OpenTransaction
from millstream.errors import KafkaError
from millstream.spark.exactly_once.transaction_pool import TransactionPool

_MOST_NAMED: Final = 3


class TransactionsLost(ClientError):
    """Transactions of tasks were ended by others before they were decided about: nothing is committed."""


class PartlyCommitted(ClientError):
    """A micro-batch was decided, and some of its transactions are lost."""


class Transactions(Protocol):
    """What coordinators do; `client.transactions` is the real one."""

    def fence(self, transactional_ids: Collection[str], *, timeout_ms: int) -> None: ...
    def end(self, transactions: Iterable[OpenTransaction], *, commit: bool) -> Mapping[OpenTransaction, KafkaError]: ...


class Admin(Protocol):
    """What coordinators say; `client.transaction_admin` is the real one."""

    def named(self, transactional_ids: Collection[str]) -> Mapping[str, KnownTransaction]: ...
    def open_ids(self) -> Collection[str]: ...


class BatchCommit:
    """The transactions of one micro-batch, or of one batch write."""

    def __init__(self, transactions: Transactions, admin: Admin, opened: Sequence[OpenTransaction], *, timeout_ms: int) -> None:
        self._transactions = transactions
        self._admin = admin
        self._opened = opened
        self._timeout_ms = timeout_ms

    def prepare(self) -> None:
        """Make sure that the transactions can be committed and that no other attempt writes any more; raises `TransactionsLost`."""
        if not self._opened:
            return
        lost = self._not_open()
        if lost:
            self._transactions.end([opened for opened in self._opened if opened not in lost], commit=False)
            raise TransactionsLost(
                f"{len(lost)} of {len(self._opened)} transactions ended before all tasks had written ({_names(lost)}), so nothing of "
                f"them is committed. Either writing took longer than kafka.transaction.timeout.ms = {self._timeout_ms}: raise it; or "
                "another query runs from a copy of this checkpoint: stop one of them. Then start the query again: it writes the rows anew"
            )
        winners = {opened.transactional_id for opened in self._opened}
        self.fence(TransactionPool.of(self._opened[0].transactional_id), but=winners)

    def finish(self, *, what: str, advice: str) -> None:
        """Commit all of them, those that are committed already again; raises `PartlyCommitted`, with the name of it and an advice."""
        lost = self._transactions.end(self._opened, commit=True)
        if not lost:
            return
        committed, error = len(self._opened) - len(lost), next(iter(lost.values()))
        state = (
            f"{committed} of its {len(self._opened)} transactions are committed" if committed else "none of its transactions is committed"
        )
        raise PartlyCommitted(
            f"{what} was decided, but {state}: the others were open for longer than kafka.transaction.timeout.ms = {self._timeout_ms}, or "
            f"another query from a copy of the checkpoint has taken their ids ({_names(lost)}: {type(error).__name__}). "
            f"{advice}"
        )

    def abort(self) -> None:
        """Abort all of them: nothing was decided."""
        self._transactions.end(self._opened, commit=False)

    def fence(self, pool: TransactionPool, *, but: Collection[str] = ()) -> None:
        """Abort what is open under other ids of the pool, also of attempts that were killed and could say nothing of it."""
        dead = [name for name in self._admin.open_ids() if name not in but and pool.place_of(name) is not None]
        self._transactions.fence(dead, timeout_ms=self._timeout_ms)

    def _not_open(self) -> list[OpenTransaction]:
        now = self._admin.named([opened.transactional_id for opened in self._opened])
        return [opened for opened in self._opened if not _is_same(opened, now.get(opened.transactional_id))]


def _is_same(opened: OpenTransaction, now: KnownTransaction | None) -> bool:
    return now is not None and now.is_open and (now.producer_id, now.epoch) == (opened.producer_id, opened.epoch)


def _names(transactions: Iterable[OpenTransaction]) -> str:
    names = [opened.transactional_id for opened in transactions]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
