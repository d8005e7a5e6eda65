"""The copy of a log that moves to another directory, `<topic>-<partition>.<uuid>-future`, while it is being made.

    make(...)                the directory, labelled with the topic
    begin(outline)           what is there and is not in the outline goes
    copy_some(outline, n)    copies about so many bytes of it, oldest segment first; 0 when all of it is there
    complete(outline)        puts everything on the disk, and the small files with it: the copy could be used from now on
    copy_tail(outline, ...)  copies what was appended since, and syncs nothing: that is as durable as it was at the source

All of it is for a thread, one at a time. Files are copied byte by byte, and only what differs is written: so a copy that a crash
interrupted is taken up again, whatever it consists of, and is the same as its source afterwards. Nothing in it counts before it gets the
name of a log (`log_move`).
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from millstream.errors import StorageError
from millstream.files import OUT_OF_DESCRIPTORS, FileHandle
from millstream.log import leader_epochs
from millstream.log.directories import checkpoints
from millstream.log.directories.directory import LogDirectory
from millstream.log.moving.outline import Outline, SegmentOutline
from millstream.log.segment import LOG_SUFFIX

CHUNK_BYTES: Final = 1 << 20
LITTLE_BYTES: Final = 1 << 20
FEW_SEGMENTS: Final = 4
"""What may be missing when the log is about to be swapped."""
_SYNC_BYTES: Final = 32 << 20
"""A disk that gets a gigabyte to sync at once keeps all other writers waiting."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class SourceChanged(Exception):
    """A file of the outline is not there any more, or is shorter: it is time for another outline."""


class CopyFailed(StorageError):
    """The copy cannot be made. Where the disk is only full, its directory stays online."""


class OutOfDescriptors(StorageError):
    """Too many files are open; that passes."""

    def __init__(self) -> None:
        super().__init__("too many files are open")


class FutureLog:
    """A copy in the making."""

    def __init__(self, source: LogDirectory, target: LogDirectory, path: Path) -> None:
        self.source = source
        self.target = target
        self.path = path
        self.is_given_up = False
        """Whether its directory has another name by now, and is about to be removed."""
        self.size_bytes = 0
        """Bytes of batches that are copied."""
        self.end_offset = 0
        """Where the copied segments end."""
        self._copied: dict[int, int] = {}
        """Bytes of the .log files, by base offset, that are the same as in the source."""
        self._complete: set[int] = set()
        """Sealed segments that are copied with their indexes, and synced."""
        self._tail: dict[int, int] = {}
        """The same for what was appended since the copy was complete."""
        self._unsynced_bytes = 0

    def make(self, topic_id: UUID | None) -> None:
        """Have the directory, and note in it which topic it belongs to."""
        files = self.target.files
        with self.writing():
            files.make_directory(self.path)
            if topic_id is not None:
                metadata = files.open(self.path / checkpoints.PARTITION_METADATA, create=True)
                files.write_all(metadata, [checkpoints.render_partition_metadata(topic_id)], 0)
                files.fsync(metadata)

    def begin(self, outline: Outline) -> None:
        """Go on with this outline: what was dropped or cut off goes here, too."""
        # A segment that was cut may end just where it was cut, if another one goes on there: then the copy is longer than it is.
        kept = {
            segment.base_offset
            for segment in outline.segments
            if segment.end_offset <= outline.cut_at and self._copied.get(segment.base_offset, 0) <= segment.size_bytes
        }
        self._copied = {base: size for base, size in self._copied.items() if base in kept}
        self._complete &= kept
        names = {name for segment in outline.segments for name in segment.names}
        names.update(outline.snapshot_names, (checkpoints.PARTITION_METADATA, leader_epochs.FILE_NAME))
        with self.writing():
            for name in self.target.files.list_directory(self.path):
                if name not in names:
                    self.target.files.unlink(self.path / name)
        self._note_progress(outline)

    def check_room(self, outline: Outline) -> None:
        """CopyFailed if the disk has no room for the log; what an earlier life has copied is there already."""
        files = self.target.files
        with self.writing():
            present = sum(files.status(self.path / name).size_bytes for name in files.list_directory(self.path))
            free = files.free_bytes(self.target.path)
        if outline.size_bytes > present + free:
            raise CopyFailed(f"{self.target.path} has room for {free} bytes, and {outline.size_bytes - present} are needed")

    def is_nearly_complete(self, outline: Outline) -> bool:
        """Whether so little is missing that the rest can be copied and synced in one go."""
        incomplete = sum(segment.is_sealed and segment.base_offset not in self._complete for segment in outline.segments)
        return incomplete <= FEW_SEGMENTS and outline.size_bytes - self.size_bytes <= LITTLE_BYTES

    def copy_some(self, outline: Outline, max_bytes: int) -> int:
        """Copy about so many bytes, at least some; how many were looked at, 0 if everything is copied."""
        done = 0
        for segment in outline.segments:
            if segment.base_offset not in self._complete:
                done += self._copy_segment(segment, outline, max_bytes - done)
                if done >= max_bytes:
                    break
        self._note_progress(outline)
        return done

    def complete(self, outline: Outline) -> None:
        """Copy the rest and put all of it on the disk. The active segment has to be empty: its file is here, and empty, too."""
        self._tail = {}
        self.begin(outline)
        while self.copy_some(outline, _SYNC_BYTES):
            pass
        files, active = self.target.files, outline.segments[-1]
        assert active.size_bytes == 0
        for name in outline.snapshot_names:
            self._copy_small(outline.path, name)
        with self.writing():
            files.write_atomically(self.path / leader_epochs.FILE_NAME, outline.epochs, is_name_synced=False)
            files.truncate(self.open_log_file(active.base_offset), 0)
            files.fsync_directory(self.path)
            files.fsync_directory(self.target.path)

    def copy_tail(self, outline: Outline, sizes: Mapping[int, int]) -> None:
        """Copy what was appended to the log since `complete`, up to these sizes of the .log files, by base offset."""
        for base_offset, size in sizes.items():
            with self.writing():
                target = self.open_log_file(base_offset)
            self._copy_range(outline.path / f"{base_offset:020d}{LOG_SUFFIX}", target, self.tail_bytes(base_offset), size)
            self._tail[base_offset] = size

    def tail_bytes(self, base_offset: int) -> int:
        """How much of a segment's .log file was copied since `complete`."""
        return self._tail.get(base_offset, 0)

    def open_log_file(self, base_offset: int) -> FileHandle:
        """The copy of a segment's .log file."""
        return self.target.files.open(self.path / f"{base_offset:020d}{LOG_SUFFIX}", create=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A full disk ends the move; any other error takes the target offline."""
        try:
            yield
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                raise OutOfDescriptors() from error
            if self.is_given_up:
                raise CopyFailed("the copy was given up") from error
            if error.errno in _FULL:
                raise CopyFailed(f"{self.target.path} is full") from error
            raise CopyFailed(str(self.target.fail(f"copying to {self.path.name}", error))) from error

    def _copy_segment(self, segment: SegmentOutline, outline: Outline, max_bytes: int) -> int:
        """Copy some of a segment, its indexes with the last piece; how many bytes were looked at."""
        position = min(self._copied.get(segment.base_offset, 0), segment.size_bytes)
        end = min(segment.size_bytes, position + max_bytes)
        with self.writing():
            target = self.open_log_file(segment.base_offset)
        done = self._copy_range(outline.path / segment.name(), target, position, end)
        self._copied[segment.base_offset] = end
        if end == segment.size_bytes:
            self._cut(target, end)
            if segment.is_sealed:
                self._sync(target)
                for name in list(segment.names)[1:]:
                    done += self._copy_small(outline.path, name)
                self._complete.add(segment.base_offset)
                return max(1, done)
        return done

    def _copy_range(self, source_path: Path, target: FileHandle, position: int, end: int) -> int:
        """Make these bytes of the target the same as those of the source; how many there are."""
        files, start = self.target.files, position
        source = self._open_source(source_path) if position < end else None
        while source is not None and position < end:
            chunk = self._read_source(source, min(CHUNK_BYTES, end - position), position)
            with self.writing():
                if files.pread(target, len(chunk), position) != chunk:
                    files.write_all(target, [chunk], position)
                    self._unsynced_bytes += len(chunk)
            position += len(chunk)
            if self._unsynced_bytes >= _SYNC_BYTES:
                self._sync(target)
        return end - start

    def _copy_small(self, directory: Path, name: str) -> int:
        """Copy a whole file and sync it; one that the source has not got is not here either."""
        try:
            size = self._source_size(directory / name)
            with self.writing():
                target = self.target.files.open(self.path / name, create=True)
            self._copy_range(directory / name, target, 0, size)
        except SourceChanged:
            with self.writing():
                self.target.files.unlink(self.path / name)
            return 0
        self._cut(target, size)
        self._sync(target)
        return size

    def _source_size(self, path: Path) -> int:
        try:
            return self.source.files.status(path).size_bytes
        except FileNotFoundError as error:
            raise SourceChanged from error
        except OSError as error:
            raise self._source_failed(error) from error

    def _open_source(self, path: Path) -> FileHandle:
        try:
            return self.source.files.open(path, read_only=True)
        except FileNotFoundError as error:
            raise SourceChanged from error
        except OSError as error:
            raise self._source_failed(error) from error

    def _read_source(self, source: FileHandle, size: int, position: int) -> bytes:
        try:
            chunk = self.source.files.pread(source, size, position)
        except OSError as error:
            raise self._source_failed(error) from error
        if len(chunk) < size:
            raise SourceChanged
        return chunk

    def _source_failed(self, error: OSError) -> Exception:
        if error.errno in OUT_OF_DESCRIPTORS:
            return OutOfDescriptors()
        return CopyFailed(str(self.source.fail("reading a log that moves", error)))

    def _cut(self, target: FileHandle, size: int) -> None:
        with self.writing():
            if self.target.files.size(target) > size:
                self.target.files.truncate(target, size)

    def _sync(self, target: FileHandle) -> None:
        with self.writing():
            self.target.files.fsync(target)
        self._unsynced_bytes = 0

    def _note_progress(self, outline: Outline) -> None:
        self.size_bytes = sum(self._copied.values())
        self.end_offset = outline.segments[0].base_offset
        for segment in outline.segments:
            if self._copied.get(segment.base_offset, -1) < segment.size_bytes:
                break
            self.end_offset = segment.end_offset
