"""Compaction, as the broker runs it: which log is next, a process that does the work, and the swap of what it made.

    every log.cleaner.backoff.ms: while a log is due, up to log.cleaner.threads workers take the filthiest one each
        worker   order ──▶ cleaner process (`log.compaction.cleaner_process`, started when there is work, ended when there is none)
                 group ◀── swap on the loop, sync of the directory in a thread, old files removed after file.delete.delay.ms
                 result ◀── checkpoint, in a thread

The loop decides and renames; it never looks at a record. A process that dies, or a log that is cut or deleted meanwhile, costs the work of
that round and nothing else: what was swapped in stays, the rest is removed. A log whose files are damaged is left alone until the next
start. The process ends with the broker.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from weakref import WeakSet

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.clock import Clock
from millstream.errors import CorruptMessage, StorageError
from millstream.log.compaction.cleaning import Cleaning, cleaning_extent
from millstream.log.compaction.cleaning_order import CleanedGroup, CleaningResult, answer_from_line
from millstream.log.compaction.cleaning_rules import CleaningExtent, is_due
from millstream.log.compaction.swap import remove_cleaned
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

PROCESS = ("-P", "-m", "millstream.log.compaction.cleaner_process")
LOGS_PER_TURN = 100
MAX_LINE_BYTES = 64 << 20
"""An answer names the segments of a group, an order the producers of a log."""

RemoveLater = Callable[[Sequence[Path], int], None]


class CleanerLost(Exception):
    """The cleaner process ended in the middle of an order."""


class LogCleaning:
    """Compacts the logs of one broker."""

    def __init__(
        self,
        logs: LogManager,
        *,
        high_watermark_of: Callable[[Log], int],
        settings: LiveSettings,
        clock: Clock,
        executor: Executor,
        remove_later: RemoveLater,
    ) -> None:
        self._logs = logs
        self._high_watermark_of = high_watermark_of
        self._settings = settings
        self._clock = clock
        self._executor = executor
        self._remove_later = remove_later
        self._under_way: set[TopicPartition] = set()
        self._queue: list[Log] = []
        """What is left to do in this round, the filthiest last."""
        self._uncleanable: WeakSet[Log] = WeakSet()
        """Not tried again before the next start."""

    async def clean_due(self) -> None:
        """Compact until no log is due any more."""
        workers = self._settings.current.integer("log.cleaner.threads")
        if not self._settings.current.boolean("log.cleaner.enable") or workers == 0:
            return
        self._queue = await self._due_logs()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(workers, len(self._queue))):
                group.create_task(self._work())

    # -- what is next

    async def _due_logs(self) -> list[Log]:
        """The logs that are due, the filthiest last."""
        due: list[tuple[float, Log]] = []
        for number, log in enumerate(self._logs, 1):
            extent = self._extent(log)
            if extent is not None:
                due.append((extent.dirty_ratio, log))
            if number % LOGS_PER_TURN == 0:
                await asyncio.sleep(0)
        return [log for _, log in sorted(due, key=lambda pair: pair[0])]

    def _next_due(self) -> tuple[Log, CleaningExtent] | None:
        """The filthiest log of this round that is still due, taken out of the queue."""
        while self._queue:
            log = self._queue.pop()
            extent = self._extent(log)
            if extent is not None:
                return log, extent
        return None

    def _extent(self, log: Log) -> CleaningExtent | None:
        """What is to be compacted of a log; None if it is not due or must not be touched now."""
        name = log.topic_partition
        if not log.config.is_compacted or log.directory.offline is not None or log in self._uncleanable:
            return None
        if name in self._under_way or log.is_truncating or log.local.is_moving or self._logs.get(*name) is not log:
            return None
        try:
            extent = cleaning_extent(log, self._clock.now_ms(), high_watermark=self._high_watermark_of(log))
        except StorageError as error:
            logger.error("%s", error)
            return None
        except CorruptMessage as error:
            logger.error("%s-%d is not compacted any more until the next start: %s", *name, error)
            self._uncleanable.add(log)
            return None
        return extent if is_due(extent, log.config) else None

    # -- a worker

    async def _work(self) -> None:
        """Compact one due log after the other with one process."""
        process: Process | None = None
        try:
            while self._queue:
                if process is None:
                    process = await asyncio.create_subprocess_exec(sys.executable, *PROCESS, stdin=PIPE, stdout=PIPE, limit=MAX_LINE_BYTES)
                due = self._next_due()
                if due is not None and not await self._clean(*due, process):
                    await _end(process)
                    process = None
        except OSError as error:
            logger.error("the cleaner process cannot be started: %s", error)
        finally:
            if process is not None:
                await _end(process)

    async def _clean(self, log: Log, extent: CleaningExtent, process: Process) -> bool:
        """Compact one log; False if the process cannot be used any more."""
        name = log.topic_partition
        current = self._settings.current
        rate = current.value("log.cleaner.io.max.bytes.per.second")
        load_factor = current.value("log.cleaner.io.buffer.load.factor")
        assert isinstance(rate, float)
        assert isinstance(load_factor, float)
        try:
            cleaning = Cleaning(
                log,
                extent,
                now_ms=self._clock.now_ms(),
                dedupe_buffer_bytes=int(current.integer("log.cleaner.dedupe.buffer.size") * load_factor),
                io_buffer_bytes=current.integer("log.cleaner.io.buffer.size"),
                bytes_per_second=rate / max(1, current.integer("log.cleaner.threads")),
            )
        except StorageError as error:
            logger.error("%s", error)
            return True
        self._under_way.add(name)
        try:
            await self._carry_out(log, cleaning, process)
            return True
        except (StorageError, CleanerLost, ConnectionError) as error:
            logger.warning("compaction of %s-%d was given up: %s", *name, error)
            await _end(process)
            await asyncio.get_running_loop().run_in_executor(self._executor, remove_cleaned, log.directory.files, log.path)
            return False
        finally:
            self._under_way.discard(name)

    async def _carry_out(self, log: Log, cleaning: Cleaning, process: Process) -> None:
        loop = asyncio.get_running_loop()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(cleaning.order.to_line())
        await process.stdin.drain()
        while True:
            line = await process.stdout.readline()
            if not line.endswith(b"\n"):
                raise CleanerLost(f"the cleaner process ended with {await process.wait()}")
            try:
                answer = answer_from_line(line)
            except (ValueError, TypeError, KeyError) as error:
                raise CleanerLost(f"the cleaner process said {line[:80]!r}") from error
            if isinstance(answer, CleaningResult):
                break
            await self._swap_in(log, cleaning, answer)
        self._report(log, answer)
        if answer.error is not None:
            await loop.run_in_executor(self._executor, remove_cleaned, log.directory.files, log.path)
        elif cleaning.complete(answer.end_offset):
            await loop.run_in_executor(self._executor, log.directory.write_cleaned_offsets)
            # With too little memory for all its keys it is not done yet; others come first.
            self._queue.insert(0, log)

    async def _swap_in(self, log: Log, cleaning: Cleaning, group: CleanedGroup) -> None:
        marked = cleaning.swap_in(group, now_ms=self._clock.now_ms())
        directory = log.directory
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, directory.files.fsync_directory, log.path)
        except FileNotFoundError as error:
            raise StorageError(f"the log was deleted: {error}") from error
        except OSError as error:
            raise directory.fail("syncing a compacted log", error) from error
        self._remove_later(marked, log.config.file_delete_delay_ms)

    def _report(self, log: Log, result: CleaningResult) -> None:
        name = f"{log.topic}-{log.partition}"
        for broken in result.broken:
            logger.warning("a batch of %s cannot be read and is kept as it is: %s", name, broken)
        if result.broken_count > len(result.broken):
            logger.warning("%d batches of %s cannot be read and are kept as they are", result.broken_count, name)
        if result.error is None:
            logger.info(
                "compacted %s up to offset %d: %d to %d bytes, %d to %d records, %.1f s",
                name,
                result.end_offset,
                result.bytes_before,
                result.bytes_after,
                result.records_before,
                result.records_after,
                result.seconds,
            )
        elif result.is_temporary:
            logger.warning("compaction of %s was given up and will be tried again: %s", name, result.error)
        else:
            logger.error("%s is not compacted any more until the next start: %s", name, result.error)
            self._uncleanable.add(log)


async def _end(process: Process) -> None:
    """End the process: it has nothing to lose."""
    if process.returncode is None:
        process.kill()
    await process.wait()
