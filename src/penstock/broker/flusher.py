"""Group commit: one fsync in a thread covers every append before it.

A partition asks for a flush whenever one is due; while one is under way for its log, all further appends wait for the next, which begins
as soon as the first is done. A failed fsync is never tried again: the directory goes offline and whoever waits for the partition is told.
"""

import asyncio
from concurrent.futures import Executor

from penstock.clock import Clock
from penstock.cluster.partition import Partition
from penstock.errors import StorageError
from penstock.log.flush import Flush


class Flusher:
    """Runs flushes, at most one per log at a time."""

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._clock = clock
        self._running: set[Partition] = set()

    def request(self, partition: Partition) -> None:
        """Flush the partition's log as soon as may be."""
        if partition in self._running:
            return
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
        error = future.exception()
        if isinstance(error, OSError):
            partition.log.fail_flush(flush, error)
            partition.fail_waiters(StorageError(f"fsync of {partition.topic}-{partition.index} failed: {error.strerror or error}"))
            return
        if error is not None:
            raise error
        partition.log.complete_flush(flush, now_ms=self._clock.now_ms())
        partition.flushed()
        # What was appended meanwhile may be too little to ask for a flush, and yet somebody waits for it to be on disk.
        if partition.log.is_flush_required or partition.durable.is_awaited:
            self.request(partition)
