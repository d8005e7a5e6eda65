"""What the broker does beside answering requests, as tasks that it owns, and the failure that ends it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Spawn = Callable[[Coroutine[Any, Any, None]], None]
"""Runs work as a task that the broker owns."""


class Tasks:
    """The background tasks of one broker; one that raises ends the broker."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = self._loop.create_future()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it until it is done, or the broker stops."""
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)

    def fail(self, error: BaseException) -> None:
        """The broker cannot go on; the first reason counts."""
        if not self._failure.done():
            self._failure.set_exception(error)
            # Read here, so that asyncio does not complain when the broker is stopped without asking why.
            self._failure.exception()

    async def failed(self) -> None:
        """Wait until the broker cannot go on; raises why."""
        await asyncio.shield(self._failure)

    async def stop(self) -> None:
        """Cancel everything and wait for it."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)
