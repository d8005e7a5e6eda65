"""When the time of requests that wait is up: one heap for all of them, and one timer of the loop.

Most of these waits end long before their deadline. A timer of asyncio's for each would cost more than the rest of the wait: it has a
context, is compared by Python code in the loop's heap, and stays there when it is cancelled. Here a wait is a tuple in a heap; one that
was cancelled stays until its time has come, or until there are more of them than others.
"""

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final

KEPT_CANCELLED: Final = 128
"""So many deadlines that were cancelled are not worth a look at all of them."""


class Deadline:
    """The end of one wait."""

    __slots__ = ("_callback", "_deadlines")

    def __init__(self, deadlines: "Deadlines", callback: Callable[[], None]) -> None:
        self._deadlines = deadlines
        self._callback: Callable[[], None] | None = callback

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing is called, or was called already."""
        return self._callback is None

    def cancel(self) -> None:
        """Call nothing; one that is over is fine."""
        if self._callback is not None:
            self._callback = None
            self._deadlines.cancelled += 1

    def ring(self) -> None:
        """The time is up."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Deadlines:
    """All of them, on one loop."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self._numbers = count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf
        self.cancelled = 0
        """How many entries of the heap are no longer waited for, or a few more."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, seconds: float, callback: Callable[[], None]) -> Deadline:
        """Call back in so many seconds, unless the deadline is cancelled."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        if self.cancelled > KEPT_CANCELLED and 2 * self.cancelled > len(self._heap):
            self._sweep()
        deadline = Deadline(self, callback)
        when = loop.time() + seconds
        heappush(self._heap, (when, next(self._numbers), deadline))
        if when < self._rings_at:
            self._ring_at(when)
        return deadline

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if not entry[2].is_cancelled]
        heapify(self._heap)
        self.cancelled = 0

    def _ring_at(self, when: float) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = when
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        assert self._loop is not None
        heap, now = self._heap, self._loop.time()
        self._timer, self._rings_at = None, inf
        while heap and (heap[0][0] <= now or heap[0][2].is_cancelled):
            deadline = heappop(heap)[2]
            if deadline.is_cancelled:
                self.cancelled -= 1
            else:
                self._loop.call_soon(deadline.ring)
        if heap:
            self._ring_at(heap[0][0])
