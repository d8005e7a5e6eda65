"""The files of one log, in its directory on this broker, and how much of them is on the disk.

    <base offset>.log .index .timeindex   the segments; and .txnindex, where transactions were aborted
    <offset>.snapshot                     producers, see producer_snapshots
    leader-epoch-checkpoint               see leader_epochs
    partition.metadata                    to which topic the directory belongs

Here files are made, renamed, cut and removed, and it is noted what the next flush has to sync. What is in them (offsets that clients may
read, producers, epochs) is the `Log`'s: it says what is to be done and keeps its own state in step.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.files import FileHandle
from millstream.log import leader_epochs
from millstream.log.config import LONG_MAX, LogConfig
from millstream.log.directories.checkpoints import PARTITION_METADATA, render_partition_metadata
from millstream.log.directories.directory import LogDirectory
from millstream.log.flush import Flush
from millstream.log.leader_epochs import LeaderEpochs
from millstream.log.producer_snapshots import ProducerSnapshots
from millstream.log.producer_state import ProducerState
from millstream.log.recovery import end_of
from millstream.log.segment import Segment
from millstream.log.segments import Segments

if TYPE_CHECKING:
    from millstream.log.transactions.open_transactions import AbortedTransaction


@dataclass(slots=True, eq=False)
class LocalLog:
    """Segments and small files of one log, and their durability."""

    directory: LogDirectory
    path: Path
    segments: Segments
    snapshots: ProducerSnapshots
    epochs: LeaderEpochs
    durable_end: int
    """Everything below is on the disk: the recovery point."""
    closed_end: int
    """Where the log ended when its files were complete; -1 if they are not."""
    last_flush_ms: int
    is_flush_wanted: bool = False
    """Whether retention waits for the next flush, though nothing may have been appended."""
    is_moving: bool = False
    """Whether it is being copied to another directory (`moving`): it is not compacted meanwhile."""
    is_held: bool = False
    """Whether no flush begins: what is durable here must not pass what is durable in the copy that is about to take its place."""
    came_from: LogDirectory | None = None
    """Where the files are that it took the place of, while they still have their name: after a power cut they may be the log again."""
    lowest_cut: int = LONG_MAX
    """The lowest offset at which it was cut since a copy was last compared with it."""
    has_aborted: bool = False
    """Whether transactions were aborted in any segment, now or at some time: if not, readers need not look for them."""
    _running: Flush | None = None
    _paths: set[Path] = field(default_factory=set)
    """Small files that were written since the last flush."""
    _directories: set[Path] = field(default_factory=set)
    """Directories whose entries were changed since the last flush."""

    def __post_init__(self) -> None:
        self.has_aborted = any(segment.has_aborted for segment in self.segments)
        if self.closed_end < 0:
            # It is not known which names and small files had reached the disk.
            self._note(self.path / PARTITION_METADATA, self.path, self.path.parent)

    def write_topic_id(self, topic_id: uuid.UUID) -> None:
        """Note in a new directory which topic it belongs to."""
        path, files = self.path / PARTITION_METADATA, self.directory.files
        files.write_all(files.open(path, create=True), [render_partition_metadata(topic_id)], 0)
        self._note(path, self.path, self.path.parent)

    @property
    def is_arriving(self) -> bool:
        """Whether the log must not be deleted, or moved on: the files it took the place of have to lose their name first."""
        return self.came_from is not None

    @property
    def is_flushing(self) -> bool:
        """Whether a flush is under way."""
        return self._running is not None

    # -- segments

    def roll(self, base_offset: int, producers: ProducerState, *, config: LogConfig, now_ms: int) -> Segment:
        """Seal the active segment and start a new one at the end of the log; the new one."""
        self.segments.active.seal()
        self.snapshots.write(base_offset, producers, segments=self.segments)
        return self._start_segment(base_offset, config=config, now_ms=now_ms)

    def start_anew_at(self, base_offset: int, *, config: LogConfig, now_ms: int) -> Segment:
        """Put a segment that starts further on in the place of the active one, which is empty; the new one."""
        empty = self.segments.active
        # First the new one: if there is no descriptor for it, nothing has changed. The empty one would only say where the log goes on.
        active = self._start_segment(base_offset, config=config, now_ms=now_ms)
        self.segments.remove_above(empty.base_offset - 1)
        self.segments.add(active)
        empty.unlink()
        return active

    def add_aborted(self, aborted: "AbortedTransaction") -> None:
        """The marker that was appended last aborted a transaction."""
        self.segments.active.add_aborted(aborted)
        self.has_aborted = True

    def begin_cut(self, offset: int) -> Flush | None:
        """From now on nothing at or after `offset` counts as durable; a flush under way, which says nothing of the log any more."""
        running, self._running = self._running, None
        self.lowest_cut = min(self.lowest_cut, offset)
        self.durable_end = min(self.durable_end, offset)
        return running

    def truncate_to(self, offset: int, *, config: LogConfig) -> int:
        """Drop the batches that end at or after `offset`; the offset after the last one that is left."""
        self.segments.unlink_above(offset)
        active = self.segments.active
        active.update_config(config)
        active.truncate_to(offset)
        self._sync_cut()
        end = end_of(self.directory.files, active)
        assert end is not None, "a segment that was cut at a batch boundary ends there"
        self._cut_at(end)
        return end

    def truncate_fully_and_start_at(self, offset: int, *, config: LogConfig, now_ms: int) -> None:
        """Drop everything and go on, empty, at `offset`."""
        self.segments.unlink_above(-1)
        self._cut_at(-1)
        self._start_segment(offset, config=config, now_ms=now_ms)
        self._sync_cut()
        self.durable_end = offset

    def delete_oldest(self, count: int) -> list[Path]:
        """Drop the oldest segments; the renamed files, to be unlinked later.

        Nothing is dropped before the segment that is the first then is on the disk: a power cut could leave neither, and the log would
        begin at 0 again. A flush is asked for, and the next call drops them.
        """
        if count and not self._is_on_disk(self.segments[count]):
            self.is_flush_wanted = True
            return []
        marked = [path for segment in self.segments.remove_first(count) for path in segment.mark_deleted()]
        first = self.segments.first.base_offset
        self.snapshots.remove_below(first)
        self.durable_end = max(self.durable_end, first)
        return marked

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """A compacted segment, whose files are in their place already, stands for those it was made of."""
        self.segments.replace(old, new)
        self.snapshots.remove([segment.base_offset for segment in old[1:]])
        # A flush that moves the recovery point past the new segment has to make its name durable, too.
        self._directories.add(self.path)

    # -- making it durable

    def is_flush_due(self, end_offset: int, config: LogConfig, *, now_ms: int) -> bool:
        """Whether it is time to sync: by count, by `flush.ms`, because a segment was sealed, or because retention waits for it."""
        unflushed = end_offset - self.durable_end
        if self.is_flush_wanted or unflushed == 0:
            return self.is_flush_wanted
        is_late = now_ms - self.last_flush_ms >= config.flush_ms
        return is_late or unflushed >= config.flush_messages or self.segments.active.base_offset > self.durable_end

    def begin_flush(self, end_offset: int) -> Flush | None:
        """What has to be synced so that everything below `end_offset` is durable; None if it is, or while one runs or is held back."""
        if self.is_held or self._running is not None or (end_offset == self.durable_end and not self.is_flush_wanted):
            return None
        with self.directory.guarded("flushing a log"):
            self._running = self._collect(end_offset)
        return self._running

    def complete_flush(self, flush: Flush, *, now_ms: int) -> None:
        """The flush has run: everything below its end is durable."""
        if flush is self._running:
            self._running = None
            self.is_flush_wanted = False
            self.durable_end = max(self.durable_end, flush.end_offset)
            self.last_flush_ms = now_ms

    def fail_flush(self, flush: Flush, error: OSError) -> None:
        """The flush failed. It is not tried again: the directory goes offline. If the log was deleted meanwhile, no harm is done."""
        if flush is self._running:
            self._running = None
            self.directory.fail("fsync", error)
            # It is still online if only descriptors were missing: then the next flush has to do what this one did not.
            self._paths.update(flush.paths)
            self._directories.update(flush.directories)
            self.epochs.is_dirty |= bool(flush.replacements)

    def finish_flush(self) -> None:
        """Wait for the flush that is under way, if there is one."""
        if self._running is not None:
            with self.directory.guarded("fsync"):
                self._running.run()
            self.complete_flush(self._running, now_ms=self.last_flush_ms)

    def begin_close(self, end_offset: int, producers: ProducerState) -> Flush | None:
        """Complete the indexes and leave a producer snapshot; what has to be synced then, None if nothing has changed."""
        self.finish_flush()
        has_records_to_close = self.closed_end != end_offset
        if not (has_records_to_close or self.epochs.is_dirty or self._directories):
            return None
        with self.directory.guarded("closing a log"):
            if has_records_to_close:
                self.snapshots.write(end_offset, producers, segments=self.segments)
                self._directories.add(self.path)
            return self._collect(end_offset, is_closing=True)

    def abandon(self) -> None:
        """Close the files as they are; a flush under way says nothing of the log any more."""
        self._running = None
        self.segments.release()

    # -- inside

    def _note(self, path: Path, *directories: Path) -> None:
        """A small file was written, and entries of these directories are new."""
        self._paths.add(path)
        self._directories.update(directories)

    def _is_on_disk(self, segment: Segment) -> bool:
        """Whether a start after a power cut would find the segment."""
        return segment.base_offset < self.durable_end or (self.path not in self._directories and self._running is None)

    def _start_segment(self, base_offset: int, *, config: LogConfig, now_ms: int) -> Segment:
        segment = Segment.create(self.directory.files, self.path, base_offset, config=config, created_ms=now_ms)
        self.segments.add(segment)
        self._directories.add(self.path)
        return segment

    def _sync_cut(self) -> None:
        """Before anything else is written: or else a crash could put what was cut off behind what was written instead."""
        self.directory.files.fsync(self.segments.active.handle())
        self.directory.files.fsync_directory(self.path)

    def _cut_at(self, end: int) -> None:
        """Nothing that is remembered of the files may lie at or behind `end`."""
        self.snapshots.remove_above(end)
        self.closed_end = -1
        self.lowest_cut = min(self.lowest_cut, end)
        if self._running is not None:
            self._running.end_offset = min(self._running.end_offset, end)
        self._directories.add(self.path)
        self.durable_end = min(self.durable_end, end)

    def _collect(self, end_offset: int, *, is_closing: bool = False) -> Flush:
        """Everything that is not on the disk; from now on the flush takes care of it."""
        handles: list[FileHandle] = []
        files, active = self.directory.files, self.segments.active
        # From the last durable record on: a segment that was sealed right behind it still has indexes that are not.
        for segment in self.segments.from_offset(self.durable_end - 1):
            handles.append(segment.handle())
            if is_closing or segment is not active:
                handles += segment.write_indexes()
        self._paths |= set(self.snapshots.take_unsynced())
        # Some may be gone again. If a file cannot be opened, nothing is forgotten.
        handles += [files.open(path) for path in sorted(self._paths) if files.exists(path)]
        replacements = []
        if self.epochs.is_dirty:
            replacements.append((self.path / leader_epochs.FILE_NAME, self.epochs.render()))
            self.epochs.is_dirty = False
        paths, self._paths = list(self._paths), set()
        directories, self._directories = sorted(self._directories, reverse=True), set()
        return Flush(files, end_offset, handles, replacements, directories, paths)
