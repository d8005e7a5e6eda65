"""Which transactions hold readers of committed data back: those that are open, and those whose marker is not replicated yet.

    offset    10      20      30      40      50
              A                       A ends          high watermark 35: A's marker could still be lost, so 10 is unstable
                      B                               B is open: 20 is unstable

The *first unstable offset* is the smallest first offset of any of them. Readers of committed data see what lies below it, and below the
high watermark: the last stable offset. Every replica computes it from its own log.

Transactions begin in the order of their offsets, so the oldest open one is the first that was put in.
"""

from collections import deque
from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: its records lie in [first_offset, last_offset), the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    """Where readers of committed data stood when it ended: a search need not look behind an entry whose value lies beyond its range."""


class OpenTransactions:
    """The transactions of one log that have an effect on what readers of committed data see."""

    __slots__ = ("decided", "ongoing")

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}
        """Producer id to first offset, oldest first."""
        self.decided: deque[tuple[int, int]] = deque()
        """First offset and offset of the marker, oldest marker first, of those whose marker may lie above the high watermark."""

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A producer wrote the first batch of a transaction."""
        self.ongoing[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int) -> int:
        """A marker ended the transaction of a producer; the last stable offset by then, were everything replicated."""
        self.decided.append((self.ongoing.pop(producer_id), marker_offset))
        return next(iter(self.ongoing.values()), marker_offset + 1)

    def replicated(self, high_watermark: int) -> None:
        """Forget the transactions whose marker is replicated. To be called now and then, though nobody may read what is committed."""
        decided = self.decided
        while decided and decided[0][1] < high_watermark:
            decided.popleft()

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction began whose end is not replicated; None if there is none."""
        self.replicated(high_watermark)
        decided = self.decided
        first_ongoing = next(iter(self.ongoing.values()), None)
        if not decided:
            return first_ongoing
        first_decided = min(first for first, _ in decided)
        return first_decided if first_ongoing is None else min(first_ongoing, first_decided)
