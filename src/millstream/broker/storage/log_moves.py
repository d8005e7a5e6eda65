"""Logs that move between the data directories of a broker, while they are written to and read (AlterReplicaLogDirs, KIP-113).

One worker per target directory, one log at a time. Copying happens in a thread, a few megabytes per turn and no faster than
`replica.alter.log.dirs.io.max.bytes.per.second` for all moves together; the loop takes outlines, swaps, and waits (`log.moving`).

    waiting ──▶ copied, round by round, until little is missing ──▶ swapped ──▶ settled: the old files are removed
       └────────────┴──▶ given up: asked for another directory, or for the one it is in; deleted; a disk is full or fails

A move is in the name of a directory on the disk from the answer on, and is taken up again by the next start. One that fails is over: one
line says why, and the log stays where it is.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, TypeVar

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.byte_limit import ByteLimit
from millstream.clock import Clock
from millstream.errors import InvalidTopic, StorageError
from millstream.log.directories import checkpoints
from millstream.log.directories.directory import LogDirectory, future_directory_name
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from millstream.log.moving.future_log import CopyFailed, OutOfDescriptors, SourceChanged
from millstream.log.moving.log_move import LogMove
from millstream.log.moving.moved_copies import FutureCopy
from millstream.log.moving.outline import Outline
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
TURN_BYTES: Final = 4 << 20
"""What a thread copies before it is asked again whether to go on."""
FIRST_TAIL_BYTES: Final = 2 << 20
LAST_TAIL_BYTES: Final = 16 << 20
"""What may be appended in the last moment of a swap, and is copied by the loop in some milliseconds: a busy log is granted ever more."""
LITTLE_TAIL_BYTES: Final = 64 << 10
TAIL_ROUNDS: Final = 8
"""So often a thread copies what was appended while the copy was put on the disk, or until next to nothing is missing. To sync takes as long
as the disk does; this takes no longer than to append it did."""
LOOK_S: Final = 0.005
PAUSE_S: Final = 1.0
MOST_CHANGES: Final = 100
"""So often in a row the files may turn out not to be as they were outlined."""

T = TypeVar("T")


class NoLongerWanted(Exception):
    """The log was deleted, or is asked for elsewhere."""


class LogMoves:
    """The moves of one broker."""

    def __init__(
        self,
        logs: LogManager,
        *,
        high_watermark_of: Callable[[Log], int],
        settings: LiveSettings,
        clock: Clock,
        executor: Executor,
        flush: Callable[[Log], None],
        remove_later: Callable[[Path, int], None],
    ) -> None:
        """`flush` lets those go on who wait for the log to be on disk."""
        self._logs = logs
        self._high_watermark_of = high_watermark_of
        self._settings = settings
        self._clock = clock
        self._executor = executor
        self._flush = flush
        self._remove_later = remove_later
        self._moves: dict[TopicPartition, LogMove] = {}
        self._waiting: dict[LogDirectory, deque[LogMove]] = {directory: deque() for directory in logs.directories}
        self._wanted = {directory: asyncio.Event() for directory in logs.directories}
        self._busy: set[TopicPartition] = set()
        """Logs that a worker has in hand."""
        self._bytes_per_s = 0
        self._limit = ByteLimit(0, now=self._now_s)
        logs.before_drop = self._dropped

    async def run(self) -> None:
        """Move what is to be moved, until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for directory in self._logs.directories:
                workers.create_task(self._work(directory))

    def of(self, log: Log) -> LogMove | None:
        """The move of the log, if it is to be in another directory and is not there yet."""
        return None if log.is_closed else self._unfinished(log)

    async def begin(self, log: Log, target: LogDirectory) -> None:
        """Let the log move; StorageError if one of the directories does not work. To where it is: it stays there."""
        while log.local.is_arriving:  # noqa: ASYNC110 -- the files of its last move lose their name: milliseconds
            await asyncio.sleep(LOOK_S)
        move = self._moves.get(log.topic_partition)
        if move is not None and not move.is_swapped:
            if move.log is log and move.target is target:
                return
            self._give_up(move)
        if target is log.directory:
            return
        move = self._add(log, target, self._future_path(log, target))
        try:
            await self._in_thread(lambda: self._make(move))
        except BaseException:
            self._give_up(move)  # whatever it was: nobody would take it up
            raise
        if self._is_wanted(move):
            logger.info("%s-%d moves from %s to %s: %d bytes", *log.topic_partition, log.directory.path, target.path, log.size_bytes)
            self._enqueue(move)
        else:
            self._give_up(move)  # it was asked for elsewhere before there was anything to remove

    def resume(self, found: Sequence[tuple[Log, FutureCopy]]) -> None:
        """Go on with what the last life of the broker had begun."""
        for log, copy in found:
            logger.info("%s-%d goes on moving from %s to %s", *log.topic_partition, log.directory.path, copy.directory.path)
            self._enqueue(self._add(log, copy.directory, copy.path))

    # -- what is to be done

    def _future_path(self, log: Log, target: LogDirectory) -> Path:
        """Where the copy is to be made; raises if the log cannot be moved there."""
        name = future_directory_name(log.topic_partition)
        if name is None:
            raise InvalidTopic(f"the name of the topic {log.topic!r} is too long for its partitions to be moved")
        if any(directory.offline is not None for directory in self._logs.directories):
            # As Kafka: a copy that was begun in a directory that is offline could not be found.
            raise StorageError("no partition can be moved between data directories while one of them is offline")
        log.check_usable()
        if target.files.exists(target.path / str(log.topic_partition)):
            raise StorageError(f"{target.path / str(log.topic_partition)} is in the way: move it elsewhere")
        return target.path / name

    def _add(self, log: Log, target: LogDirectory, path: Path) -> LogMove:
        move = self._moves[log.topic_partition] = LogMove(log, target, path)
        return move

    def _enqueue(self, move: LogMove) -> None:
        self._waiting[move.target].append(move)
        self._wanted[move.target].set()

    def _make(self, move: LogMove) -> None:
        move.target.begin_anew(move.log.topic_partition)
        move.future.make(move.log.topic_id)

    def _give_up(self, move: LogMove) -> None:
        """Forget the move at once; its worker notices, the files go later."""
        self._forget(move)
        try:
            deleted = move.give_up()
        except StorageError as error:
            logger.error("%s", error)
        else:
            if deleted is not None:
                self._remove_later(deleted, 0)

    def _dropped(self, log: Log) -> None:
        """The log is about to be deleted. Its copy goes first: found without the log it would be all that is left, and be kept for ever."""
        move = self._unfinished(log)
        if move is not None:
            self._give_up(move)

    def _unfinished(self, log: Log) -> LogMove | None:
        move = self._moves.get(log.topic_partition)
        return move if move is not None and move.log is log and not move.is_swapped else None

    def _forget(self, move: LogMove) -> None:
        if self._is_wanted(move):
            del self._moves[move.log.topic_partition]

    def _is_wanted(self, move: LogMove) -> bool:
        return self._moves.get(move.log.topic_partition) is move

    def _check(self, move: LogMove) -> None:
        """Raise if it makes no sense to go on."""
        if not self._is_wanted(move) or move.log.is_closed:
            raise NoLongerWanted
        for directory in (move.source, move.target):
            directory.check_online()

    # -- one move after the other

    async def _work(self, target: LogDirectory) -> None:
        waiting, wanted = self._waiting[target], self._wanted[target]
        while True:
            await wanted.wait()
            wanted.clear()
            while waiting:
                await self._carry_out(waiting.popleft())

    async def _carry_out(self, move: LogMove) -> None:
        """Move one log; but for the end of the broker, the move is over then."""
        name, began_ms = move.log.topic_partition, self._clock.monotonic_ms()
        while name in self._busy:  # noqa: ASYNC110 -- the last move of the log is given up, or its old files go: milliseconds
            await asyncio.sleep(LOOK_S)
        self._busy.add(name)
        try:
            await self._try(move)
            if move.is_swapped:
                await self._settle(move, began_ms=began_ms)
            elif move.source.offline is None:
                await self._in_thread(move.forget_mark)
        except Exception as error:  # as in `_try`
            logger.error("after the move of %s-%d: %s", *name, str(error) or type(error).__name__, exc_info=_unexpected(error))
        finally:
            self._busy.discard(name)

    async def _try(self, move: LogMove) -> None:
        try:
            await self._copy_and_swap(move)
        except NoLongerWanted:
            self._give_up(move)
        except Exception as error:  # too little memory, or a mistake of ours: that ends this move, and not the broker
            if self._is_wanted(move) and not move.is_swapped:
                logger.error(
                    "%s-%d stays in %s and does not move to %s: %s",
                    *move.log.topic_partition,
                    move.source.path,
                    move.target.path,
                    str(error) or type(error).__name__,
                    exc_info=_unexpected(error),
                )
            self._give_up(move)

    async def _copy_and_swap(self, move: LogMove) -> None:
        self._check(move)
        await self._patiently(move, lambda: self._make(move))
        max_tail_bytes, changes = FIRST_TAIL_BYTES, 0
        is_swapped = False
        while not is_swapped:
            try:
                await self._copy(move)
                changes = 0
                is_swapped = await self._swap(move, max_tail_bytes=max_tail_bytes)
                max_tail_bytes = min(2 * max_tail_bytes, LAST_TAIL_BYTES)
            except SourceChanged:
                changes += 1
                if changes == MOST_CHANGES:
                    raise CopyFailed(
                        f"the files in {move.log.path} are not what they should be; restart the broker to have them checked"
                    ) from None

    async def _settle(self, move: LogMove, *, began_ms: int) -> None:
        """The log uses the copy: the old files go."""
        log = move.log
        try:
            deleted = await self._in_thread(move.settle)
        except StorageError as error:
            logger.error("%s-%d has moved to %s; what it left is not removed: %s", *log.topic_partition, move.target.path, error)
        else:
            self._remove_later(deleted, log.config.file_delete_delay_ms)
            seconds = (self._clock.monotonic_ms() - began_ms) / 1000
            logger.info("%s-%d has moved to %s: %d bytes, %.1f s", *log.topic_partition, move.target.path, log.size_bytes, seconds)
        finally:
            move.settled()
            self._forget(move)

    # -- copying

    async def _copy(self, move: LogMove) -> None:
        """Copy until next to nothing is missing."""
        is_first = True
        while True:
            await self._until_untouched(move)
            outline = move.outline()
            await self._patiently(move, lambda outline=outline: move.future.begin(outline))  # type: ignore[misc]
            if is_first:
                await self._patiently(move, lambda outline=outline: move.future.check_room(outline))  # type: ignore[misc]
                is_first = False
            if move.future.is_nearly_complete(outline):
                return
            await self._copy_outline(move, outline)

    async def _copy_outline(self, move: LogMove, outline: Outline) -> None:
        while True:
            await self._keep_pace(move)
            portion = self._limit.largest_read(TURN_BYTES)
            done = await self._patiently(move, lambda portion=portion: move.future.copy_some(outline, portion))  # type: ignore[misc]
            if not done:
                return
            self._limit.spend(done, now=self._now_s)

    async def _keep_pace(self, move: LogMove) -> None:
        """Wait until the rate allows more to be copied; it may be changed meanwhile."""
        while (pause_s := self._pause_s()) > 0:
            self._check(move)
            await asyncio.sleep(min(pause_s, PAUSE_S))

    def _pause_s(self) -> float:
        rate = self._settings.current.value(RATE)
        bytes_per_s = max(1, rate) if isinstance(rate, int) else 0
        if bytes_per_s != self._bytes_per_s:
            self._bytes_per_s, self._limit = bytes_per_s, ByteLimit(bytes_per_s, now=self._now_s)
        return self._limit.pause_s(now=self._now_s)

    @property
    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000

    # -- swapping

    async def _swap(self, move: LogMove, *, max_tail_bytes: int) -> bool:
        """Let the copy take the place of the log, if nothing comes in between."""
        log = move.log
        await self._until_untouched(move)
        try:
            outline = move.begin_swap(now_ms=self._clock.now_ms())
            while log.local.is_flushing:  # noqa: ASYNC110 -- it began before, and ends as any flush does
                await asyncio.sleep(LOOK_S)
            self._check(move)
            offsets = self._offsets_of(log)
            cleaned_offset = log.directory.cleaned_offsets.get(log.topic_partition)

            def complete() -> None:
                move.future.complete(outline)
                move.prepare(outline, offsets=offsets, cleaned_offset=cleaned_offset)

            copied_bytes = move.future.size_bytes
            await self._in_thread(complete)
            self._limit.spend(move.future.size_bytes - copied_bytes, now=self._now_s)
            await self._copy_tail(move, outline)
            await self._note_start(move, outline, cleaned_offset=cleaned_offset)
            return move.swap(outline, max_bytes=max_tail_bytes)
        except OutOfDescriptors:
            pass
        finally:
            move.end_swap()
            self._flush(log)
        await asyncio.sleep(PAUSE_S)
        return False

    async def _copy_tail(self, move: LogMove, outline: Outline) -> None:
        """Copy what was appended since, until little is missing: a log must not be too busy for the disk to be moved."""
        self._check(move)
        for _ in range(TAIL_ROUNDS):
            missing = move.missing_bytes(outline)
            if missing <= LITTLE_TAIL_BYTES:
                break
            sizes = move.tail(outline)
            await self._in_thread(lambda sizes=sizes: move.future.copy_tail(outline, sizes))  # type: ignore[misc]
            self._limit.spend(missing, now=self._now_s)
            self._check(move)

    async def _note_start(self, move: LogMove, outline: Outline, *, cleaned_offset: int | None) -> None:
        """Records were deleted meanwhile: the target has to know. They may be deleted all the time, so that is tried more than once."""
        for _ in range(TAIL_ROUNDS):
            if move.is_start_noted:
                break
            offsets = self._offsets_of(move.log)
            await self._in_thread(lambda offsets=offsets: move.note(outline, offsets=offsets, cleaned_offset=cleaned_offset))  # type: ignore[misc]
            self._check(move)

    def _offsets_of(self, log: Log) -> dict[str, int]:
        """What the checkpoints of the target are to say of the log."""
        offsets = {checkpoints.HIGH_WATERMARK: self._high_watermark_of(log)}
        if log.starts_inside:
            offsets[checkpoints.LOG_START_OFFSET] = log.log_start_offset
        return offsets

    # -- waiting

    async def _until_untouched(self, move: LogMove) -> None:
        """Wait until no thread cuts the log."""
        self._check(move)
        while move.log.is_truncating:
            await asyncio.sleep(LOOK_S)
            self._check(move)

    async def _patiently(self, move: LogMove, work: Callable[[], T]) -> T:
        """Do it in a thread; again after a while, if there are too many open files."""
        while True:
            try:
                found = await self._in_thread(work)
                self._check(move)
                return found
            except OutOfDescriptors:
                self._check(move)
                await asyncio.sleep(PAUSE_S)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """What comes of it. Who is cancelled waits for its end: no thread touches the disks when the broker has closed its logs."""
        running = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise


def _unexpected(error: Exception) -> Exception | None:
    """The error, if its traceback has something to tell: it is none of a disk."""
    return None if isinstance(error, StorageError) else error
