"""A number that only grows and can be waited for: all that is left of Kafka's purgatory.

A fetch waits for a partition's high watermark to pass what it has seen; a produce with acks=all waits for it to reach the end of its batch.
Waiting is a callback, not a task: the one who advances the number calls those whose turn has come. Who has a task can await it.
"""

import asyncio
from collections.abc import Callable

from millstream.errors import KafkaError

Waker = Callable[[KafkaError | None], None]
"""Called once: with None when the number was reached, with an error when it never will be."""


class Watermark:
    """An offset below which something holds: is committed, is on disk."""

    __slots__ = ("_waiters", "value")

    def __init__(self, value: int) -> None:
        self.value = value
        self._waiters: dict[object, tuple[int, Waker]] = {}

    @property
    def is_awaited(self) -> bool:
        """Whether anything waits for it."""
        return bool(self._waiters)

    def advance(self, value: int) -> None:
        """Move to `value`, if that is ahead, and wake whoever waited for it."""
        if value <= self.value:
            return
        self.value = value
        if self._waiters:
            self._wake_reached()

    def fall_to(self, value: int) -> None:
        """What it was said of is gone from `value` on: the log was truncated. Only where nothing waits for it."""
        self.value = min(self.value, value)

    def wait_for(self, value: int, waker: Waker, *, token: object) -> None:
        """Call `waker` once when the number is at least `value`; `token` names the wait for `cancel`."""
        if self.value >= value:
            waker(None)
            return
        self._waiters[token] = (value, waker)

    async def reached(self, value: int) -> None:
        """Wait until the number is at least `value`; raises why that will never be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(error: KafkaError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.wait_for(value, wake, token=future)
        try:
            await future
        finally:
            self.cancel(future)

    def cancel(self, token: object) -> None:
        """Forget the wait named `token`; one that is over is fine."""
        self._waiters.pop(token, None)

    def fail(self, error: KafkaError) -> None:
        """Wake all with an error: the disk is gone, the leadership moved, the topic was deleted."""
        waiters, self._waiters = self._waiters, {}
        for _, waker in waiters.values():
            waker(error)

    def _wake_reached(self) -> None:
        reached = [(token, waker) for token, (value, waker) in self._waiters.items() if value <= self.value]
        for token, waker in reached:
            if self._waiters.pop(token, None) is not None:
                waker(None)
