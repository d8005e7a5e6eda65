"""All logs of a broker, in one or several log directories.

    start(...)        locks the directories, checks whose they are and that none is missing, finds out whether the last stop was clean
    load(...)         opens every log; leftovers of deleted topics and directories that belong to no topic are reported
    create / delete   a log in the directory with the fewest logs; a deleted one is renamed at once, its files go later, in a thread
    apply_retention, begin_capture and write, expire_producers, release_idle
                      housekeeping: plain functions that the broker's shell calls from time to time, for some logs per turn of the loop
    close(...)        closes the logs, writes the checkpoints, leaves the marker of a clean stop

A directory that fails goes offline with its logs; the others go on. With no directory left the broker has to stop: that is for
`on_offline` to decide. It is called in whatever thread the failure came up: the loop's, or one that writes checkpoints. High watermarks
are not known here: who keeps them hands them in when checkpoints are written.
"""

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from weakref import WeakMethod

from millstream.clock import Clock
from millstream.errors import StartupError, StorageError
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories import checkpoints
from millstream.log.directories.capture import Capture
from millstream.log.directories.closing import close_log
from millstream.log.directories.directory import (
    STRAY_SUFFIX,
    LogDirectory,
    NotedDirectories,
    deleted_directory_name,
    is_deleted_directory_name,
    parse_directory_name,
    unique_name,
)
from millstream.log.directories.known_directories import FoundDirectories, KnownDirectories, check, newest, renewed, unreadable
from millstream.log.loading import LoadOrder
from millstream.log.log import Log
from millstream.log.moving.moved_copies import FutureCopy, find_moved, sort_futures
from millstream.log.retention import apply_retention
from millstream.topic_partition import TopicPartition

CLOSING_THREADS = 8
"""The journal of the file system takes the syncs of several logs together; each needs a few descriptors more."""
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadReport:
    """What was found in the log directories besides the logs that were opened."""

    strays: list[Path] = field(default_factory=list)
    """Directories of logs that belong to no topic: it is gone, or has another id. They are left alone."""
    deleted: list[Path] = field(default_factory=list)
    """Directories of deleted logs, to be handed to `remove_directory`."""
    moves: Sequence[tuple[Log, FutureCopy]] = ()
    """Logs that were moving to another directory, with the copies that were begun."""


class LogManager:
    """Opens, creates, deletes and closes logs."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        clock: Clock,
        files: Files | None = None,
        on_offline: Callable[[LogDirectory, OSError], None] = lambda _directory, _error: None,
    ) -> None:
        self._files = files or Files()
        self._files.close_idle = partial(_call_if_alive, WeakMethod(self._close_idle))
        self._clock = clock
        self._logs: dict[TopicPartition, Log] = {}
        self.is_loaded = False
        self.known = KnownDirectories()
        """What is remembered of the directories of this broker, less what was given up."""
        self._forgotten: Collection[str] = ()
        self._found = FoundDirectories({})
        self.directories = [LogDirectory(self._files, path.absolute(), on_offline=on_offline) for path in paths]
        self._captures = 0
        self._written_capture = 0
        self._writing = Lock()
        self._preferred = NotedDirectories()
        """Where logs are to be created that are not here yet."""
        self._deleted_from = NotedDirectories()
        """Where logs were deleted whose new names may not be on the disk yet."""
        self.before_drop: Callable[[Log], None] = lambda _log: None
        """Called on the loop before a log loses its name: a copy of it in the making has to lose its own first (`log.moving`)."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The high watermarks as they were checkpointed before this start."""

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    @property
    def online_directories(self) -> list[LogDirectory]:
        """The directories that work."""
        return [directory for directory in self.directories if directory.offline is None]

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last clean stop; -1 if the last stop was not clean everywhere (KIP-966)."""
        epochs = {directory.previous_broker_epoch if directory.was_clean else -1 for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else -1

    @property
    def cluster_id(self) -> str | None:
        """The cluster the directories belong to; None in new ones."""
        return next((directory.cluster_id for directory in self.directories if directory.cluster_id is not None), None)

    def start(self, *, node_id: int, cluster_id: str | None, forgotten: Collection[str] = ()) -> None:
        """Lock the directories and find out how they were left; StartupError with one sentence if none can be used.

        A directory whose disk fails is offline, and the others go on without it. One that belongs to another broker, or is missing and not
        `forgotten` by its id, is a mistake that only a person can mend: StartupError, before anything is touched.
        """
        self.examine(forgotten=forgotten)
        failed: list[tuple[LogDirectory, OSError]] = []
        try:
            for directory in self.directories:
                try:
                    self._begin(directory, node_id=node_id, cluster_id=cluster_id)
                except OSError as error:
                    failed.append((directory, error))
            for directory, failure in failed:
                directory.fail("opening it", failure)
                if directory.offline is None or not self.online_directories:
                    raise StartupError.for_directory(directory.path, failure) from failure
        except StartupError:
            self.leave_as_found()
            raise
        if not self.known.paths.keys().isdisjoint(forgotten):
            # What was in the directory that is given up is lost, however cleanly the broker stopped: it must not stay in sync.
            for directory in self.directories:
                directory.previous_broker_epoch = -1

    def examine(self, *, forgotten: Collection[str] = ()) -> None:
        """Find out which directories these are, and touch nothing; StartupError if one is missing and not `forgotten`."""
        self._forgotten = forgotten
        self._found = self._look()
        self.recall(newest(directory.known for directory in self.directories))

    def leave_as_found(self) -> None:
        """Give up a start before a log was opened: no checkpoint is written, what was clean stays so, and nothing else becomes so."""
        for directory in self.directories:
            if directory.was_clean:
                try:
                    directory.mark_clean(broker_epoch=directory.previous_broker_epoch)
                except OSError as error:
                    _logger.error("%s will be recovered at the next start: %s", directory.path, error)
            directory.release()

    def recall(self, known: KnownDirectories) -> None:
        """Check what is remembered of the directories elsewhere, too; StartupError if one is missing."""
        known = newest([self.known, known])
        check(known, self._found, forgotten=self._forgotten)
        self.known = known

    def remember(self, *, tree: str) -> KnownDirectories:
        """Write down in every directory which others there are, before a log is made in any; returns what was written."""
        for given_up in set(self._forgotten) - set(self.known.paths):
            _logger.warning("no data directory %s is known: --forget-directory=%s can be left out", given_up, given_up)
        kept = self.known.without(self._forgotten)
        for identifier, path in unreadable(kept, self._found).items():
            _logger.error("the data directory %s (directory.id %s) cannot be read: what is not found stays offline", path, identifier)
        self.known = renewed(kept, self._found, tree=tree, is_changed=kept != self.known)
        for directory in self.online_directories:
            try:
                directory.remember(self.known)
            except OSError as error:
                directory.fail("writing down the data directories", error)
        return self.known

    def identify(self, *, node_id: int, cluster_id: str) -> None:
        """Write down, or check, which cluster the directories belong to; StartupError if it is another one."""
        for directory in self.online_directories:
            directory.identify(node_id=node_id, cluster_id=cluster_id)

    def load(
        self,
        config_of: Callable[[str], LogConfig],
        *,
        topic_ids: Mapping[str, uuid.UUID] | None = None,
        doubtful: Collection[str] = (),
    ) -> LoadReport:
        """Open every log; where `topic_ids` is given, a log of another topic (by id) is reported as a stray instead.

        Of a `doubtful` topic the id is not known for now: its logs are opened and kept for it.
        A directory that fails is offline. StartupError if one works and its logs cannot be opened all the same (too few descriptors): a
        log that is passed over would be begun anew, without recovery or in another directory.
        """
        report = LoadReport()
        self.is_loaded = True

        def is_wanted(topic: str, topic_id: uuid.UUID | None) -> bool:
            return topic_ids is None or topic in doubtful or _is_wanted(topic, topic_id, topic_ids)

        moved = find_moved(self._files, self.directories, is_wanted)
        for directory in self.online_directories:
            try:
                self._load_directory(directory, config_of, is_wanted, unused=moved.unused, report=report)
            except (OSError, StorageError) as error:
                failure = directory.fail("opening logs", error) if isinstance(error, OSError) else error
                if directory.offline is None:
                    raise StartupError(str(failure)) from error
        futures = sort_futures(moved.futures, self.get, None if topic_ids is None else {*topic_ids, *doubtful})
        report.moves = futures.moves
        report.deleted += [*moved.outdated, *futures.unneeded]
        for path in futures.orphans if len(self.online_directories) == len(self.directories) else ():
            _logger.warning("%s is a copy of a log that was not found; it is kept as %s", path, self.set_aside(path).name)
        return report

    def set_aside(self, stray: Path) -> Path:
        """Rename the directory of a log that belongs to no topic, so that it is out of the way; a person decides what becomes of it."""
        target = stray.with_name(unique_name(stray.name, STRAY_SUFFIX))
        self._files.rename(stray, target)
        self._files.fsync_directory(stray.parent)
        return target

    def set_log_aside(self, log: Log) -> Path:
        """Drop a log that belongs to other brokers, and rename its directory as above; StorageError if its disk fails."""
        self.before_drop(log)
        self._give_up(log)
        with log.directory.guarded(f"setting {log.path.name} aside"):
            return self.set_aside(log.path)

    def get(self, topic: str, partition: int) -> Log | None:
        """The log, if it is here."""
        return self._logs.get(TopicPartition(topic, partition))

    def create(self, topic: str, partition: int, *, topic_id: uuid.UUID, config: LogConfig) -> Log:
        """The log of the partition, made new if there is none; StorageError if no directory works."""
        topic_partition = TopicPartition(topic, partition)
        log = self._logs.get(topic_partition)
        if log is not None and log.topic_id in (None, topic_id):
            if log.topic_id is None:
                log.write_topic_id(topic_id)
            if log.config != config:
                log.update_config(config)
            return log
        if log is not None:
            self._give_up(log)
            with log.directory.guarded(f"setting {log.path.name} aside"):
                self._set_older_topic_aside(log.path, topic_id)
        directory = self._directory_for(topic_partition)
        self._finish_deletion(topic_partition, directory)
        path = directory.path / str(topic_partition)
        try:
            self._set_older_topic_aside(path, topic_id)
            self._files.make_directory(path)
            directory.begin_anew(topic_partition)
            log = Log(directory, topic_partition, path, LoadOrder(config, self._clock.now_ms()))
            log.write_topic_id(topic_id)
            # Until it is written to, it needs no descriptor.
            log.segments.release()
        except OSError as error:
            raise directory.fail(f"creating {path.name}", error) from error
        self._add(log)
        return log

    def prefer(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Should the log come to be created here, let it be in that directory. Remembered until then, or until the broker stops."""
        self._preferred.note(topic_partition, directory)

    def delete(self, topic: str, partition: int) -> Path | None:
        """Drop the log; its renamed directory, to be handed to `remove_directory` after `file.delete.delay.ms`."""
        log = self.get(topic, partition)
        if log is None:
            return None
        self.before_drop(log)
        self._give_up(log)
        target = log.path.with_name(deleted_directory_name(log.topic_partition))
        try:
            log.directory.check_online()
            # Not synced: if the rename is lost in a crash, the next start finds a log that belongs to no topic, or to other brokers.
            self._files.rename(log.path, target)
        except OSError as error:
            raise log.directory.fail(f"deleting {log.path.name}", error) from error
        self._deleted_from.note(log.topic_partition, log.directory)
        return target

    def _finish_deletion(self, topic_partition: TopicPartition, new: LogDirectory) -> None:
        """Before a log is made on another disk than the one it was deleted from: after a power cut there must not be two of them."""
        old = self._deleted_from.take(topic_partition)
        if old is not None and old is not new and old.offline is None:
            with old.guarded("deleting a log"):
                self._files.fsync_directory(old.path)

    def remove_directory(self, path: Path) -> None:
        """Remove the files of a deleted log and its directory. For a thread."""
        for name in self._files.list_directory(path):
            self._files.unlink(path / name)
        self._files.remove_directory(path)

    def unlink(self, paths: Sequence[Path]) -> None:
        """Remove files that retention gave up. For a thread."""
        for path in paths:
            self._files.unlink(path)

    def apply_retention(self, logs: Iterable[Log], high_watermark_of: Callable[[Log], int]) -> list[tuple[Log, list[Path]]]:
        """Drop old segments of these logs; per log the renamed files, to be handed to `unlink` after `file.delete.delay.ms`."""
        now_ms = self._clock.now_ms()
        dropped: list[tuple[Log, list[Path]]] = []
        for log in logs:
            if log.directory.offline is None and not log.is_truncating and not log.is_closed:
                try:
                    size_bytes = log.size_bytes
                    paths = apply_retention(log, now_ms, high_watermark=high_watermark_of(log))
                    if paths:
                        dropped.append((log, paths))
                        freed = size_bytes - log.size_bytes
                        _logger.info(
                            "retention of %s-%d: %d bytes went, it begins at offset %d now",
                            *log.topic_partition,
                            freed,
                            log.log_start_offset,
                        )
                except StorageError as error:
                    _logger.warning("retention of %s stopped: %s", log.path, error)
        return dropped

    def expire_producers(self, logs: Iterable[Log], *, expiration_ms: int) -> None:
        """Forget the idempotent producers of these logs that wrote nothing for so long."""
        older_than_ms = self._clock.now_ms() - expiration_ms
        for log in logs:
            if not log.is_truncating:
                log.producers.expire(older_than_ms=older_than_ms)

    def begin_capture(self, high_watermark_of: Callable[[Log], int] | None = None) -> Capture:
        """Begin to take down the checkpoints, with high watermarks if they are known."""
        self._captures += 1
        return Capture(self.online_directories, self._captures, high_watermark_of)

    def begin_high_watermarks(self, high_watermark_of: Callable[[Log], int]) -> Capture:
        """Begin to take down the high watermarks alone."""
        return Capture(self.online_directories, self._captures, high_watermark_of, is_whole=False)

    def write(self, capture: Capture) -> None:
        """Write the checkpoints, unless what a later capture says was: what happened to logs in between is only in that. For a thread.

        High watermarks alone are not written, either, once a whole capture has begun: which logs began anew before it is forgotten by then.
        """
        with self._writing:
            if capture.number <= self._written_capture if capture.is_whole else capture.number < self._captures:
                return
            if capture.is_whole:
                self._written_capture = capture.number
            for directory, name, values in capture.checkpoints():
                try:
                    directory.write_offsets(name, values)
                except StorageError as error:
                    _logger.warning("%s was not written: %s", name, error)

    def release_idle(self, logs: Iterable[Log]) -> None:
        """Close the files of sealed segments and of indexes; whoever reads them opens them again."""
        for log in logs:
            if not log.is_truncating:
                log.segments.release_sealed()

    def write_checkpoints(self, high_watermark_of: Callable[[Log], int] | None = None) -> None:
        """Write the checkpoints here and now."""
        capture = self.begin_capture(high_watermark_of)
        capture.take(self)
        self.write(capture)

    def close(self, *, broker_epoch: int = -1, high_watermark_of: Callable[[Log], int] | None = None) -> None:
        """Close every log, write the checkpoints, mark the directories that are whole as cleanly stopped, give back the locks."""
        with ThreadPoolExecutor(max_workers=CLOSING_THREADS) as pool:
            unclosed = {log.directory for log, is_closed in zip(self, pool.map(close_log, self), strict=True) if not is_closed}
        self.write_checkpoints(high_watermark_of)
        for directory in self.online_directories:
            if directory in unclosed:
                continue
            try:
                self._files.fsync_directory(directory.path)  # the names of logs that are new
                directory.mark_clean(broker_epoch=broker_epoch)
            except OSError as error:
                directory.fail("marking a clean stop", error)
        self._logs.clear()
        for directory in self.directories:
            directory.release()

    def _set_older_topic_aside(self, path: Path, topic_id: uuid.UUID) -> None:
        """A new log must not begin with the records of an older topic of the same name."""
        found = checkpoints.read_topic_id(self._files, path)
        if found is not None and found != topic_id:
            _logger.warning("%s belongs to an older topic of that name and is kept as %s", path, self.set_aside(path).name)

    def _look(self) -> FoundDirectories:
        present: dict[str, Path] = {}
        dead, empty, absent = list[Path](), list[Path](), list[Path]()
        for directory in self.directories:
            path = directory.path
            try:
                directory.look()
                if not directory.is_identified:
                    (empty if self._files.exists(path) else absent).append(path)
            except OSError:
                dead.append(path)
                continue
            if (other := present.get(directory.id_text)) is not None:
                advice = "one is a copy of the other; leave one of them out of --data"
                raise StartupError(f"{other} and {path} have the same directory.id {directory.id_text}: {advice}")
            present[directory.id_text] = path
        return FoundDirectories(present, dead, empty, absent)

    def _begin(self, directory: LogDirectory, *, node_id: int, cluster_id: str | None) -> None:
        directory.acquire()
        directory.identify(node_id=node_id, cluster_id=cluster_id)
        directory.begin()

    def _add(self, log: Log) -> None:
        self._logs[log.topic_partition] = log
        log.directory.log_count += 1

    def _close_idle(self) -> None:
        for log in self:
            if not log.is_truncating:
                log.segments.close_idle()

    def _give_up(self, log: Log) -> None:
        """The files stay where they are, for now."""
        del self._logs[log.topic_partition]
        log.directory.log_count -= 1
        log.directory.forget_cleaned_offset(log.topic_partition)
        log.directory.to_flush.discard(log.topic_partition)
        log.abandon()

    def _directory_for(self, topic_partition: TopicPartition) -> LogDirectory:
        """The one that was asked for, if it works; else the one with the fewest logs."""
        online = self.online_directories
        if not online:
            raise StorageError("no log directory is online")
        preferred = self._preferred.take(topic_partition)
        return preferred if preferred in online else min(online, key=lambda directory: directory.log_count)

    def _load_directory(
        self,
        directory: LogDirectory,
        config_of: Callable[[str], LogConfig],
        is_wanted: Callable[[str, uuid.UUID | None], bool],
        *,
        unused: Collection[Path],
        report: LoadReport,
    ) -> None:
        starts, high_watermarks = (directory.read_offsets(name) for name in (checkpoints.LOG_START_OFFSET, checkpoints.HIGH_WATERMARK))
        now_ms = self._clock.now_ms()
        for name in self._files.list_directory(directory.path):
            path = directory.path / name
            topic_partition = parse_directory_name(name)
            if is_deleted_directory_name(name):
                report.deleted.append(path)
            elif topic_partition is not None and path not in unused and path.is_dir():
                topic_id = checkpoints.read_topic_id(self._files, path)
                if not is_wanted(topic_partition.topic, topic_id):
                    report.strays.append(path)
                    continue
                order = LoadOrder(
                    config_of(topic_partition.topic),
                    now_ms,
                    is_clean=directory.was_clean,
                    recovery_point=directory.recovery_points.get(topic_partition, 0),
                    log_start_offset=starts.get(topic_partition, 0),
                    cleaned_offset=directory.cleaned_offsets.get(topic_partition, 0),
                )
                log = Log(directory, topic_partition, path, order)
                log.topic_id = topic_id
                log.flush_recovered()
                # As a new one: recovery opened it, and there may be more logs than descriptors.
                log.segments.release()
                self._add(log)
                if topic_partition in high_watermarks:  # another directory, from which it moved here, may still speak of it, too
                    self.high_watermarks[topic_partition] = high_watermarks[topic_partition]


def _call_if_alive(method: WeakMethod[Callable[[], None]]) -> None:
    """A file system outlives those who use it, and does not keep them alive."""
    found = method()
    if found is not None:
        found()


def _is_wanted(topic: str, topic_id: uuid.UUID | None, topic_ids: Mapping[str, uuid.UUID]) -> bool:
    """Whether the topic exists and the directory is its own; one that was not labelled before a crash is taken for it."""
    return topic in topic_ids and topic_id in (None, topic_ids[topic])
