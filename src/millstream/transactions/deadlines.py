"""When transactions take too long, and when to look for unused transactional ids. Pure.

As in Kafka neither is looked for all the time: overdue transactions every `transaction.abort.timed.out.transaction.cleanup.interval.ms`,
unused ids every `transaction.remove.expired.transaction.cleanup.interval.ms`, both counted from the moment the machine was loaded.
"""

from heapq import heappop, heappush

from millstream.transactions.settings import TransactionSettings
from millstream.transactions.transaction import Transaction


class Deadlines:
    """The deadlines of one machine."""

    __slots__ = ("_expiry_ms", "_heap", "_settings", "_start_ms")

    def __init__(self, settings: TransactionSettings) -> None:
        self._settings = settings
        self._heap: list[tuple[int, str, int]] = []
        """The first moment at which a transaction is overdue, its transactional id, when it began; some ended since."""
        self._start_ms = 0
        self._expiry_ms = 0

    def start(self, now_ms: int) -> None:
        """Time begins to count."""
        self._start_ms = now_ms
        self._expiry_ms = now_ms + self._settings.expiration_interval_ms

    def began(self, transaction: Transaction) -> None:
        """A transaction has begun."""
        heappush(self._heap, (transaction.start_ms + transaction.timeout_ms + 1, transaction.transactional_id, transaction.start_ms))

    def take_overdue(self, now_ms: int) -> list[tuple[str, int]]:
        """Transactional id and beginning of transactions that take too long, if they have not ended; as many as one tick may abort."""
        taken: list[tuple[str, int]] = []
        while self._heap and len(taken) < self._settings.max_aborted_at_once and self._next_look(self._heap[0][0]) <= now_ms:
            _, transactional_id, start_ms = heappop(self._heap)
            taken.append((transactional_id, start_ms))
        return taken

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
