"""One log on its way to another directory: what is decided and changed on the loop while a thread copies (`future_log`).

    outline()            what is to be copied by now; again and again, until little is missing
    begin_swap(...)      the active segment is sealed, no flush begins from here on
    future.complete      in a thread: all of that is on the disk of the target; and prepare(): so is what recovery has to know
    future.copy_tail     in a thread: what was appended meanwhile; again, until little of that is missing (`tail`, `missing_bytes`)
    swap(...)            on the loop, at once: the rest is copied, the copy gets the name of the log, the log uses it
    end_swap()           whether it was swapped or not: flushes go on
    settle()             in a thread: the new name is put on the disk, then the old files lose theirs

A crash at any moment leaves one copy that is the log. The order of what happens on the disks, which share no journal:

    1   the copy is complete and synced, as far as the source is durable (no flush of the source begins after it was taken down)
    2   `moved-to` in the old directory names the new one, and is synced: from now on the old files count only if the new ones have no name
    3   <name>.<uuid>-future is renamed to <name>, in the same turn of the loop in which the log begins to use it
    4   that name is synced
    5   the old directory is renamed to <name>.<uuid>-delete, and that is synced

`moved_copies` decides at a start. Offsets, producers, epochs, roles and watermarks know nothing of all this: the `Log` stays the same
object. Readers that were given a region of an old file keep it open.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from millstream.log.directories import checkpoints
from millstream.log.directories.directory import LogDirectory, deleted_directory_name
from millstream.log.local_log import LocalLog
from millstream.log.log import Log
from millstream.log.moving.future_log import FutureLog, SourceChanged
from millstream.log.moving.moved_copies import MOVED_TO, mark_moved
from millstream.log.moving.outline import Outline, outline_of
from millstream.log.producer_snapshots import ProducerSnapshots
from millstream.log.segment import Segment
from millstream.log.segments import Segments


class LogMove:
    """A log, the directory it moves to, and the copy in the making."""

    def __init__(self, log: Log, target: LogDirectory, path: Path) -> None:
        """`path` is where the copy is made."""
        self.log = log
        self.source = log.directory
        self.target = target
        self.future = FutureLog(log.directory, target, path)
        self.is_swapped = False
        self._old_path = log.path
        self._noted_start: int | None = None
        """Where the log starts, as the target's checkpoint says."""
        log.local.is_moving = True

    @property
    def is_possible(self) -> bool:
        """Whether the log is still there, and both disks work."""
        return not self.log.is_closed and self.source.offline is None and self.target.offline is None

    def outline(self) -> Outline:
        """What is to be copied by now; the indexes of sealed segments are written by then."""
        with self.source.guarded("writing the indexes of a log that moves"):
            for segment in list(self.log.segments)[:-1]:
                if segment.has_unwritten_indexes:  # it has just come from another directory, and was not flushed since
                    segment.write_indexes()
        return outline_of(self.log)

    def begin_swap(self, *, now_ms: int) -> Outline:
        """Seal what there is, and let nothing become durable that the copy has not got; the outline to complete the copy by."""
        self.log.check_usable()
        self.log.local.is_held = True
        self.log.roll(now_ms=now_ms)
        return self.outline()

    def prepare(self, outline: Outline, *, offsets: Mapping[str, int], cleaned_offset: int | None) -> None:
        """Put on both disks what a start has to know if the swap is the last thing that happens. For a thread, after `complete`."""
        self.note(outline, offsets=offsets, cleaned_offset=cleaned_offset)
        try:
            mark_moved(self.source.files, outline.path, self.target.id_text)
        except FileNotFoundError as error:
            raise SourceChanged from error  # it was deleted
        except OSError as error:
            raise self.source.fail("noting that a log moves", error) from error

    def note(self, outline: Outline, *, offsets: Mapping[str, int], cleaned_offset: int | None) -> None:
        """Let the checkpoints of the target say this of the log: once more, if its start has moved on since. For a thread."""
        recovery_point = {checkpoints.RECOVERY_POINT: outline.segments[-1].base_offset}
        self.target.expect(self.log.topic_partition, {**offsets, **recovery_point}, cleaned_offset=cleaned_offset)
        self._noted_start = offsets.get(checkpoints.LOG_START_OFFSET)

    @property
    def is_start_noted(self) -> bool:
        """Whether the target's checkpoint says where the log starts. The source's may say more by now, and will not be asked any more."""
        return self._noted_start == (self.log.log_start_offset if self.log.starts_inside else None)

    def tail(self, outline: Outline) -> dict[int, int]:
        """By base offset the sizes of the .log files that were appended to since the outline; nothing if the log was cut."""
        segments = self._tail_segments(outline) if self._is_as_outlined(outline) else ()
        return {segment.base_offset: segment.size_bytes for segment in segments}

    def missing_bytes(self, outline: Outline) -> int:
        """How much of that is not copied yet."""
        return sum(size - self.future.tail_bytes(base_offset) for base_offset, size in self.tail(outline).items())

    def swap(self, outline: Outline, *, max_bytes: int) -> bool:
        """Let the log use the copy; False, and nothing has happened, if it was cut meanwhile, or has grown too much for one turn.

        Nor has it if records were deleted meanwhile that the target's checkpoint does not know of.

        StorageError if one of the disks fails; nothing has happened then, either.
        """
        log = self.log
        if not self._is_as_outlined(outline) or not self.is_start_noted or self.missing_bytes(outline) > max_bytes:
            return False
        tail = self._tail_segments(outline)
        with self.source.guarded("reading a log that moves"):
            content = [_content(segment, self.future.tail_bytes(segment.base_offset)) for segment in tail]
            local = self._new_local(outline, tail)
        with self.future.writing():
            for segment, batches in zip(tail, content, strict=True):
                if batches:
                    position = segment.size_bytes - len(batches)
                    self.target.files.write_all(self.future.open_log_file(segment.base_offset), [batches], position)
            self.target.files.rename(self.future.path, local.path)
        # From here on it is the log, whatever comes up.
        old = log.local
        log.use(local)
        log.producers.segments = local.segments
        self.is_swapped = True
        old.abandon()
        self._settle_accounts()
        return True

    def end_swap(self) -> None:
        """Let flushes go on. If the log was not swapped, it is again as if nothing had been tried."""
        self.log.local.is_held = False

    def settle(self) -> Path:
        """The new name reaches the disk, then the old files lose theirs; where they are now, to be removed. For a thread."""
        files = self.source.files
        with self.target.guarded("syncing a log that moved in"):
            files.fsync_directory(self.target.path)
        deleted = self._old_path.with_name(deleted_directory_name(self.log.topic_partition))
        with self.source.guarded("removing a log that moved away"):
            files.rename(self._old_path, deleted)
            files.fsync_directory(self.source.path)
        return deleted

    def settled(self) -> None:
        """The log may be deleted, or moved on."""
        self.log.local.came_from = None

    def give_up(self) -> Path | None:
        """It stays where it is. What there is of the copy gets another name at once: no start takes it up again; that, to be removed."""
        if self.is_swapped:
            return None
        if not self.future.is_given_up:
            self.future.is_given_up = True
            self.log.local.is_moving = False
            self.target.expect_no_more(self.log.topic_partition)
        files = self.target.files
        if self.target.offline is not None or not files.exists(self.future.path):
            return None
        deleted = self.future.path.with_name(deleted_directory_name(self.log.topic_partition))
        with self.target.guarded("giving up a copy"):
            files.rename(self.future.path, deleted)
        return deleted

    def forget_mark(self) -> None:
        """The old files count again, whatever became of the copy. For a thread."""
        with self.source.guarded("noting that a log stays"):
            self.source.files.unlink(self._old_path / MOVED_TO)

    def _tail_segments(self, outline: Outline) -> list[Segment]:
        return list(self.log.segments)[len(outline.segments) - 1 :]

    def _is_as_outlined(self, outline: Outline) -> bool:
        """Whether the log was only appended to since, and has not lost a segment."""
        log, count = self.log, len(outline.segments)
        if not self.is_possible or log.is_truncating or log.truncation_count != outline.truncation_count:
            return False
        present = [(segment.base_offset, segment.size_bytes) for segment in log.segments]
        outlined = [(segment.base_offset, segment.size_bytes) for segment in outline.segments]
        return present[: count - 1] == outlined[:-1] and len(present) >= count and present[count - 1][0] == outlined[-1][0]

    def _new_local(self, outline: Outline, tail: Sequence[Segment]) -> LocalLog:
        """The files as the log will find them, once the copy has its name. Opens nothing that is there."""
        log, path, files = self.log, self.target.path / str(self.log.topic_partition), self.target.files
        segments = Segments()
        for old in list(log.segments)[: len(outline.segments) - 1]:
            segment = Segment(files, path, old.base_offset, config=log.config, created_ms=old.created_ms, size_bytes=old.size_bytes)
            segment.has_aborted = old.has_aborted
            segments.add(segment)
        for old in tail:
            segments.add(old.copied_to(path, config=log.config))
        snapshots = ProducerSnapshots(files, path, list(outline.snapshots))
        # More is synced, but not the name that it will have: if the power goes now, the old files are the log.
        durable_end, last_flush_ms = log.durable_end, log.local.last_flush_ms
        local = LocalLog(self.target, path, segments, snapshots, log.epochs, durable_end, closed_end=-1, last_flush_ms=last_flush_ms)
        local.has_aborted = log.local.has_aborted
        local.came_from = self.source
        return local

    def _settle_accounts(self) -> None:
        """What the directories know of the log."""
        log, name = self.log, self.log.topic_partition
        log.epochs.is_dirty = True  # it may have gone on since it was written
        self.source.log_count -= 1
        self.target.log_count += 1
        cleaned_offset = self.source.cleaned_offsets.get(name)
        if cleaned_offset is not None:
            self.target.cleaned_offsets[name] = cleaned_offset
        self.source.forget_cleaned_offset(name)
        self.source.to_flush.discard(name)
        self.target.to_flush.add(name)
        self.target.arrived(name)


def _content(segment: Segment, position: int) -> bytes:
    """All batches of a segment from a position on."""
    size = segment.size_bytes - position
    if not size:
        return b""
    found = segment.files.pread(segment.handle(), size, position)
    if len(found) != size:
        raise OSError(f"{segment.path()} ended after {len(found)} of {size} bytes from {position} on")
    return found
