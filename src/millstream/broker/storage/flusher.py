"""Group commit: one fsync in a thread covers every append before it.

A partition asks for a flush whenever one is due; while one is under way for its log, all further appends wait for the next, which begins
as soon as the first is done. Only a few are under way at a time, because each holds a few open files. A failed fsync is never tried again:
the directory goes offline and whoever waits for the partition gets the error.
"""

import asyncio
from concurrent.futures import Executor

from millstream.clock import Clock
from millstream.cluster.partition import Partition
from millstream.errors import StorageError
from millstream.log.flush import Flush

MOST_AT_ONCE = 16
"""A few for each thread, so that none has to wait for the loop."""


class Flusher:
    """Runs flushes, at most one per log at a time."""

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._clock = clock
        self._running: set[Partition] = set()
        self._waiting: dict[Partition, None] = {}
        """In the order in which they asked."""

    def request(self, partition: Partition) -> None:
        """Flush the partition's log as soon as may be."""
        if partition not in self._running:
            self._waiting[partition] = None
            self._begin_waiting()

    def _begin_waiting(self) -> None:
        while self._waiting and len(self._running) < MOST_AT_ONCE:
            partition = next(iter(self._waiting))
            del self._waiting[partition]
            self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        try:
            flush = partition.log.begin_flush()
        except StorageError as error:
            partition.fail_waiters(error)
            return
        if flush is None:
            return
        self._running.add(partition)
        future = asyncio.get_running_loop().run_in_executor(self._executor, flush.run)
        future.add_done_callback(lambda done: self._done(partition, flush, done))

    def _done(self, partition: Partition, flush: Flush, future: asyncio.Future[None]) -> None:
        self._running.discard(partition)
        if future.cancelled():
            return
        self._finish(partition, flush, future)
        self._begin_waiting()

    def _finish(self, partition: Partition, flush: Flush, future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None:
            assert isinstance(error, OSError), "a flush fails with nothing else"
            partition.log.fail_flush(flush, error)
            partition.fail_waiters(StorageError(f"fsync of {partition.topic}-{partition.index} failed: {error.strerror or error}"))
            return
        partition.log.complete_flush(flush, now_ms=self._clock.now_ms())
        partition.flushed()
        # What was appended meanwhile may be too little to ask for a flush, and yet a request waits for it to be on disk.
        if partition.log.is_flush_required or partition.durable.is_awaited:
            self.request(partition)
