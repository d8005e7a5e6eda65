"""When transactions take too long, and when to look for unused transactional ids. Pure.

As in Kafka neither is looked for all the time: overdue transactions every `transaction.abort.timed.out.transaction.cleanup.interval.ms`,
unused ids every `transaction.remove.expired.transaction.cleanup.interval.ms`, both counted from the moment the machine was loaded.

A transactional id has one deadline, which transactions that end in time do not leave behind: when it comes it is that of an earlier one
perhaps, and the id gets the one of its present transaction. So what is kept grows with the ids, not with the transactions.
"""

from heapq import heappop, heappush

from millstream.transactions.settings import TransactionSettings
from millstream.transactions.transaction import Transaction


class Deadlines:
    """The deadlines of one machine."""

    __slots__ = ("_expiry_ms", "_heap", "_known", "_settings", "_start_ms")

    def __init__(self, settings: TransactionSettings) -> None:
        self._settings = settings
        self._heap: list[tuple[int, str]] = []
        """The first moment at which a transaction of the transactional id may be overdue."""
        self._known: dict[str, int] = {}
        """The same by id; what else is in the heap does not count any more."""
        self._start_ms = 0
        self._expiry_ms = 0

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._heap)

    def start(self, now_ms: int) -> None:
        """Time begins to count."""
        self._start_ms = now_ms
        self._expiry_ms = now_ms + self._settings.expiration_interval_ms

    def began(self, transaction: Transaction) -> None:
        """A transaction has begun, or goes on after a deadline that was not its own."""
        moment_ms, transactional_id = _overdue_from(transaction), transaction.transactional_id
        known_ms = self._known.get(transactional_id)
        if known_ms is None or known_ms > moment_ms:
            self._known[transactional_id] = moment_ms
            heappush(self._heap, (moment_ms, transactional_id))

    def take_due(self, now_ms: int) -> list[str]:
        """The transactional ids whose deadline has come; as many as one tick may abort."""
        taken: list[str] = []
        while self._heap and len(taken) < self._settings.max_aborted_at_once and self._next_look(self._heap[0][0]) <= now_ms:
            moment_ms, transactional_id = heappop(self._heap)
            if self._known.get(transactional_id) == moment_ms:
                del self._known[transactional_id]
                taken.append(transactional_id)
        return taken

    def is_overdue(self, transaction: Transaction, now_ms: int) -> bool:
        """Whether an open transaction takes too long, by the last time at which that is looked for."""
        return self._next_look(_overdue_from(transaction)) <= now_ms

    def is_expiry_due(self, now_ms: int) -> bool:
        """Whether it is time to look for unused ids."""
        return now_ms >= self._expiry_ms

    def expired(self, now_ms: int, *, is_more_left: bool) -> None:
        """They were looked for; at once again, if there are more."""
        self._expiry_ms = now_ms if is_more_left else now_ms + self._settings.expiration_interval_ms

    def next_ms(self, *, has_ids: bool) -> int | None:
        """When to look next; None if nothing can become due."""
        moments = [self._expiry_ms] if has_ids else []
        if self._heap:
            moments.append(self._next_look(self._heap[0][0]))
        return min(moments, default=None)

    def _next_look(self, moment_ms: int) -> int:
        """The first time, not before the moment, at which overdue transactions are looked for."""
        interval = self._settings.abort_interval_ms
        return self._start_ms + max(1, -(-(moment_ms - self._start_ms) // interval)) * interval


def _overdue_from(transaction: Transaction) -> int:
    return transaction.start_ms + transaction.timeout_ms + 1
