"""What a broker does on its own: flush what is due, forget what is old, compact, write down how far it is.

Each chore is a short loop of its own. Deciding and renaming happen on the event loop, some logs per turn; syncing and unlinking in a
thread. What is done often does not look at all logs: only those are asked whether they have to be flushed of which that may be
(`LogDirectory.to_flush`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.storage.cleaning import LogCleaning
from millstream.broker.storage.flusher import Flusher
from millstream.broker.storage.loop_turns import in_turns
from millstream.clock import Clock
from millstream.cluster.replicas import Replicas
from millstream.errors import StorageError
from millstream.files import count_open_handles
from millstream.log.directories.capture import Capture
from millstream.log.directories.manager import LogManager
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

FLUSH_CHECK_SECONDS = 0.5
SHORTEST_PAUSE_SECONDS = 0.001
SPARE_HANDLES = 256
Chore = Callable[[], Awaitable[None]]


class Housekeeping:
    """The chores of one broker."""

    def __init__(
        self,
        replicas: Replicas,
        logs: LogManager,
        *,
        flusher: Flusher,
        settings: LiveSettings,
        clock: Clock,
        executor: Executor,
        spare_handles: int = SPARE_HANDLES,
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._flusher = flusher
        self._settings = settings
        self._clock = clock
        self._executor = executor
        self._removals: set[asyncio.TimerHandle] = set()
        self._spare_handles = spare_handles
        """How many files may be open besides one for each log, before those that are only read are closed."""
        self._cleaning = LogCleaning(
            logs,
            high_watermark_of=replicas.high_watermark_of,
            settings=settings,
            clock=clock,
            executor=executor,
            remove_later=lambda paths, delay_ms: self._after_delay(delay_ms, partial(logs.unlink, paths)),
        )

    async def run(self) -> None:
        """Do all chores until cancelled."""
        async with asyncio.TaskGroup() as chores:
            chores.create_task(self._repeat(lambda: FLUSH_CHECK_SECONDS, self._flush))
            chores.create_task(self._repeat(self._every("log.retention.check.interval.ms"), self.apply_retention))
            chores.create_task(self._repeat(self._every("log.cleaner.backoff.ms"), self._cleaning.clean_due))
            chores.create_task(self._repeat(self._every("log.flush.offset.checkpoint.interval.ms"), self._checkpoint))
            chores.create_task(self._repeat(self._every("replica.high.watermark.checkpoint.interval.ms"), self._checkpoint_high_watermarks))
            chores.create_task(self._repeat(self._every("producer.id.expiration.check.interval.ms"), self._expire_producers))

    async def apply_retention(self) -> None:
        """Forget what is too old, or too much."""
        async for some in in_turns(list(self._logs)):
            for log, dropped in self._logs.apply_retention(some, self._replicas.high_watermark_of):
                self._replicas.log_shortened(log)
                self._after_delay(log.config.file_delete_delay_ms, partial(self._logs.unlink, dropped))
        # Sealed segments that were read stay open otherwise, and descriptors are few.
        await self._release_idle()

    def remove_later(self, directory: Path, delay_ms: int) -> None:
        """Remove the directory of a deleted log after a while."""
        self._after_delay(delay_ms, lambda: self._logs.remove_directory(directory))

    def forget(self) -> None:
        """The broker stops: files that wait to be removed are left to the next start."""
        for removal in self._removals:
            removal.cancel()
        self._removals.clear()

    def _every(self, option: str) -> Callable[[], float]:
        return lambda: max(SHORTEST_PAUSE_SECONDS, self._settings.current.integer(option) / 1000)

    async def _repeat(self, seconds: Callable[[], float], chore: Chore) -> None:
        while True:
            await asyncio.sleep(seconds())
            try:
                await chore()
            except StorageError as error:
                logger.error("%s", error)

    async def _flush(self) -> None:
        if count_open_handles() > len(self._logs) + self._spare_handles:
            await self._release_idle()
        now_ms = self._clock.now_ms()
        for directory in self._logs.online_directories:
            async for some in in_turns(list(directory.to_flush)):
                for name in some:
                    self._flush_if_due(name, directory.to_flush, now_ms=now_ms)

    def _flush_if_due(self, name: TopicPartition, to_flush: set[TopicPartition], *, now_ms: int) -> None:
        topic = self._replicas.topic(name.topic)
        partition = None if topic is None else topic.partitions.get(name.partition)
        if partition is None:
            return
        log = partition.log
        if log.is_flush_due(now_ms):
            self._flusher.request(partition)
        elif not (log.is_truncating or log.config.is_flushed_by_itself):
            to_flush.discard(name)  # whatever makes it due puts it back

    async def _release_idle(self) -> None:
        async for some in in_turns(list(self._logs)):
            self._logs.release_idle(some)

    async def _checkpoint(self) -> None:
        await self._write(self._logs.begin_capture(self._replicas.high_watermark_of))

    async def _checkpoint_high_watermarks(self) -> None:
        # Without followers the high watermark is the end of the log, and needs no memory.
        if any(len(partition.state.replicas) > 1 for partition in self._replicas):
            await self._write(self._logs.begin_high_watermarks(self._replicas.high_watermark_of))

    async def _write(self, capture: Capture) -> None:
        async for some in in_turns(list(self._logs)):
            capture.take(some)
        await asyncio.get_running_loop().run_in_executor(self._executor, self._logs.write, capture)

    async def _expire_producers(self) -> None:
        async for some in in_turns(list(self._logs)):
            self._logs.expire_producers(some, expiration_ms=self._settings.current.integer("producer.id.expiration.ms"))

    def _after_delay(self, delay_ms: int, unlink: Callable[[], None]) -> None:
        """Give people a moment (`file.delete.delay.ms`) before the files are gone; a crash meanwhile leaves them to the next start."""

        def remove() -> None:
            self._removals.discard(timer)
            self._executor.submit(self._remove, unlink)

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, remove)
        self._removals.add(timer)

    def _remove(self, unlink: Callable[[], None]) -> None:
        try:
            unlink()
        except OSError as error:
            logger.error("deleted files could not be removed, the next start will try again: %s", error)
