"""What a broker keeps on disk: the data directories, the logs in them, the partitions over the logs, and the work that keeps them in order.

    async with Storage(...) as storage      locks the directories; no log is open yet
    await storage.apply(view)               the first view opens the logs, every view moves the partitions

A start that fails before the logs are open leaves the directories as it found them. Afterwards the end of the block flushes the logs and
marks the directories as cleanly stopped. A directory that fails takes its partitions offline, and fails whoever waits for one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self
from uuid import UUID

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.network.descriptors import Descriptors
from millstream.broker.server_options import ServerOptions
from millstream.broker.storage.flusher import Flusher
from millstream.broker.storage.housekeeping import Housekeeping
from millstream.clock import Clock
from millstream.cluster.partition import LocalBroker, Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.errors import StorageError
from millstream.files import Files
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log

if TYPE_CHECKING:
    from millstream.broker.storage.log_moves import LogMoves

logger = logging.getLogger(__name__)

DISK_THREADS = 4
READ_THREADS = 4
"""Cold reads have threads of their own: consumers that lag far behind do not hold up an fsync that producers wait for."""
UNKNOWN_ID = UUID(int=0)
WARN_EVERY_MS = 60_000


class Storage:
    """The disks of one broker."""

    def __init__(
        self,
        options: ServerOptions,
        *,
        settings: LiveSettings,
        descriptors: Descriptors,
        clock: Clock,
        files: Files,
        broker_epoch: Callable[[], int],
        life: Callable[[], int],
        has_lease: Callable[[], bool],
        in_sync_change_wanted: Callable[[Partition], None],
        on_follow: Callable[[Iterable[Partition]], None],
        resign: Callable[[Partition], None],
        on_directory_failed: Callable[[LogDirectory, StorageError], None],
    ) -> None:
        """`broker_epoch` is what the marker of a clean stop names; `life` is that of the present registration, -1 without one."""
        self._options = options
        self._settings = settings
        self._descriptors = descriptors
        self._broker_epoch = broker_epoch
        self._on_directory_failed = on_directory_failed
        self._resign = resign
        self._clock = clock
        self._warned_ms = -WARN_EVERY_MS
        self._has_too_many_logs = False
        self._has_opened_logs = False
        self._loop = asyncio.get_running_loop()
        self._disk_threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        self.read_threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read")
        self.logs = LogManager(options.data, clock=clock, files=files, on_offline=self._directory_offline)
        self.flusher = Flusher(self._disk_threads, clock)
        self.replicas = Replicas(
            self.logs,
            broker=LocalBroker(
                options.node_id,
                clock,
                request_flush=self.flusher.request,
                has_lease=lambda: has_lease() and self.replicas.is_confirmed,
                lag_ms=lambda: settings.current.integer("replica.lag.time.max.ms"),
                is_registered=lambda node_id: node_id in self.replicas.view.brokers,
                in_sync_change_wanted=in_sync_change_wanted,
                cannot_write=self._cannot_write,
                on_follow=on_follow,
            ),
            life=life,
            log_config=settings.log_config,
            remove_later=lambda path, delay_ms: self.housekeeping.remove_later(path, delay_ms),  # noqa: PLW0108 -- made below
        )
        self.housekeeping = Housekeeping(
            self.replicas,
            self.logs,
            flusher=self.flusher,
            settings=settings,
            clock=clock,
            executor=self._disk_threads,
            spare_handles=descriptors.reserve // 2,
        )

        self._move_threads = ThreadPoolExecutor(len(options.data), thread_name_prefix="move")
        self.moves = self._make_moves() if len(options.data) > 1 else None
        """None with one data directory: nothing can move."""

    def _make_moves(self) -> "LogMoves":
        from millstream.broker.storage.log_moves import LogMoves  # most brokers have one directory, and start sooner without it

        return LogMoves(
            self.logs,
            high_watermark_of=self.replicas.high_watermark_of,
            settings=self._settings,
            clock=self._clock,
            executor=self._move_threads,
            flush=self._flush,
            remove_later=self.housekeeping.remove_later,
        )

    async def __aenter__(self) -> Self:
        options = self._options
        self.logs.start(node_id=options.node_id, cluster_id=None, forgotten=options.forget_directories)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._has_opened_logs:
                self.logs.close(broker_epoch=self._broker_epoch(), high_watermark_of=self.replicas.high_watermark_of)
            else:
                self.logs.leave_as_found()
        finally:
            self.read_threads.shutdown()
            self._disk_threads.shutdown()
            self._move_threads.shutdown()

    async def apply(self, view: ClusterView) -> None:
        """Keep what the view says; with the first one the logs are opened, and new ones of later views by `open_logs`."""
        if not self.logs.is_loaded:
            self._load_logs(view)
        await self.replicas.apply(view)
        self._warn_of_too_many_logs()

    async def open_logs(self, on_opened: Callable[[], None]) -> None:
        """Open the logs of partitions that came; `on_opened` is called when all of a topic are open."""
        await self.replicas.open_logs(on_opened)
        self._warn_of_too_many_logs()

    def _load_logs(self, view: ClusterView) -> None:
        report = self.logs.load(
            lambda topic: self._settings.log_config(view.topics.get(topic) or TopicState(topic, UNKNOWN_ID, ())),
            topic_ids={topic.name: topic.topic_id for topic in view.topics.values()},
            doubtful=view.unreadable_topics,
        )
        self._has_opened_logs = True
        if self.moves is not None:
            self.moves.resume(report.moves)
        for path in report.deleted:
            self.housekeeping.remove_later(path, 0)
        for path in report.strays:
            logger.warning("%s belongs to no topic that is known; it is kept as %s", path, self.logs.set_aside(path).name)

    def _flush(self, log: Log) -> None:
        """Those who wait for the log to be on disk may go on: it is on another one now, or could not be flushed for a moment."""
        topic = self.replicas.topic(log.topic)
        partition = None if topic is None else topic.partitions.get(log.partition)
        if partition is not None and partition.log is log:
            partition.flushed()
            if log.is_flush_required or partition.durable.is_awaited:
                self.flusher.request(partition)

    def _warn_of_too_many_logs(self) -> None:
        """Say so when there are, once: the controller, which creates partitions on all brokers, knows only its own descriptors."""
        room = self._descriptors.max_partitions(0) + self._descriptors.internal_partitions
        had_too_many, self._has_too_many_logs = self._has_too_many_logs, len(self.logs) > room
        if self._has_too_many_logs and not had_too_many:
            logger.warning(
                "there are %d partitions here, and of %d file descriptors enough for %d of them to be written to: writes to the others "
                "will be refused, and connections too (raise `ulimit -n` and restart the broker)",
                len(self.logs),
                self._descriptors.limit,
                room,
            )

    def _cannot_write(self, partition: Partition) -> None:
        """Let another replica lead a partition for whose log there is no file descriptor; say so, from time to time."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._warned_ms + WARN_EVERY_MS:
            self._warned_ms = now_ms
            logger.error(
                "%s-%d cannot be written to: all %d file descriptors of this process are in use (raise `ulimit -n` and restart the "
                "broker). Such partitions are led by other in-sync replicas; where there is none, writes are refused",
                partition.topic,
                partition.index,
                self._descriptors.limit,
            )
        self._resign(partition)

    def _directory_offline(self, directory: LogDirectory, error: OSError) -> None:
        # A disk may fail in a thread (writing a checkpoint, making a log), but answers are sent by the loop alone.
        self._loop.call_soon_threadsafe(self._directory_failed, directory, error)

    def _directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        if not self._has_opened_logs:
            # During the start no client waits; whether it can go on is decided there.
            return
        failure = StorageError(f"log directory {directory.path} is offline: {error.strerror or error}")
        for partition in self.replicas:
            if partition.log.directory is directory:
                partition.fail_waiters(failure)
        self._on_directory_failed(directory, failure)
