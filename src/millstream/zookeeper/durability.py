"""Group commit for the journal of the tree: one sync in a thread covers everything written before it.

There is one thread and it does one thing at a time, so a flush never overtakes the one before it. A sync that failed is not tried again:
from then on the tree is offline, whoever waits is woken with `TreeOffline`, and no write is confirmed as durable.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from millstream.files import OUT_OF_DESCRIPTORS
from millstream.zookeeper.errors import TreeOffline
from millstream.zookeeper.journal import Flush, Journal

_log = logging.getLogger(__name__)
DESCRIPTOR_RETRY_S = 0.1


class Durability:
    """Knows how far the journal is on the disk, and who waits for it."""

    def __init__(self, journal: Journal, *, is_synced: bool) -> None:
        self.failure: TreeOffline | None = None
        self._journal = journal
        self._is_synced = is_synced
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="coordination-disk")
        self._is_flushing = False
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._failure_listeners: list[Callable[[], None]] = []

    @property
    def is_current(self) -> bool:
        """Whether nothing written so far waits for the disk."""
        return not self._is_synced or self._journal.durable_position == self._journal.position

    def require_online(self) -> None:
        """Raise `TreeOffline` after a disk error."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def on_failure(self, listener: Callable[[], None]) -> None:
        """Call back when the disk has failed."""
        self._failure_listeners.append(listener)

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call back, at once or later, when everything written until now is on the disk; never after a failure."""
        if self.is_current:
            callback()
            return
        self._waiting.append((self._journal.position, callback))
        self._flush()

    async def wait(self) -> None:
        """Return when everything written until now is on the disk; raise `TreeOffline` if it cannot get there."""
        self.require_online()
        if self.is_current:
            return
        future = self._loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        self.when_durable(wake)
        self.on_failure(wake)
        try:
            await future
        finally:
            self._failure_listeners.remove(wake)
        self.require_online()

    def run_on_disk(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Do `work` in the thread, then `done` on the loop."""
        future = self._loop.run_in_executor(self._thread, work)
        future.add_done_callback(partial(self._finished, work, done))

    def fail(self, error: BaseException) -> None:
        """The disk failed: offline, for good."""
        if self.failure is None:
            _log.critical("the journal of the coordination tree cannot be written (%s); the tree is offline until a restart", error)
            self.failure = TreeOffline(f"the journal of the coordination tree cannot be written: {error}")
            self._waiting.clear()
            for listener in list(self._failure_listeners):
                listener()

    async def close(self) -> None:
        """Sync what is left and end the thread; a disk that fails now has been reported by `fail`."""
        self._is_synced = True
        with contextlib.suppress(TreeOffline):
            await self.wait()
        await asyncio.to_thread(self._thread.shutdown)
        self._journal.close()

    def _flush(self) -> None:
        if self._is_flushing or self.failure is not None:
            return
        flush = self._journal.begin_flush()
        if flush is not None:
            self._is_flushing = True
            self.run_on_disk(flush.run, partial(self._flushed, flush))

    def _flushed(self, flush: Flush) -> None:
        self._is_flushing = False
        self._journal.complete_flush(flush)
        while self._waiting and self._waiting[0][0] <= flush.position:
            self._waiting.popleft()[1]()
        if self._waiting:
            self._flush()

    def _finished(self, work: Callable[[], None], done: Callable[[], None], future: asyncio.Future[None]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
            # Not the disk: what was opened before it ran out was synced, and is synced again.
            _log.warning("the journal of the coordination tree waits for a file descriptor")
            self._loop.call_later(DESCRIPTOR_RETRY_S, self.run_on_disk, work, done)
        elif error is not None:
            self.fail(error)
        else:
            done()
