"""The segment that compaction writes, and how it takes the place of those it was made of: a crash at any moment leaves either them or it.

    00000000000000000042.log.cleaned   .index.cleaned   .timeindex.cleaned      being written by the cleaner; removed at a start
    00000000000000000042.log.swap      .index.swap      .timeindex.swap         complete and synced; a start finishes the swap

    1   B.index.cleaned, B.timeindex.cleaned, then B.log.cleaned are renamed to .swap: from the last rename on the new segment counts
    2   the files of the old segments are renamed to .deleted
    3   B.index.swap, B.timeindex.swap, then B.log.swap are renamed to what segments are called

Where one of the old segments has a `.txnindex`, the new one has one, too, if only an empty one, and it takes the same way: so what stands
under its name is never left over from the old segment.

The `.cleaned` files and their names were synced before step 1, and names reach the disk in the order they were changed in. A start that
finds `B.log.swap` does what was left of steps 2 and 3: the old segments are those that begin within the range of the new one. That range is
known because a compacted segment ends with its last batch, even if that is empty. Without a `B.log.swap` nothing had happened yet.
"""

import logging
from pathlib import Path
from typing import ClassVar

from millstream.buffer import Buffer
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.recovery import end_of
from millstream.log.segment import INDEX_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, Segment

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_BUFFERED_BYTES = 1 << 20
_BUFFERED_PIECES = 512
"""Linux takes 1024 in one call."""
_SYNC_BYTES = 32 << 20
"""A disk that gets a gigabyte to sync at once keeps all other writers waiting."""
_COMMIT_LAST = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX)
_logger = logging.getLogger(__name__)


class RenamedSegment(Segment):
    """A segment whose files have one more ending."""

    __slots__ = ()
    ending: ClassVar[str] = ""

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        """Where the segment's file with this suffix is."""
        return super().path(suffix + self.ending)


class SwapSegment(RenamedSegment):
    """A compacted segment that is about to take its place."""

    __slots__ = ()
    ending = SWAP_SUFFIX


class CleanedSegment(RenamedSegment):
    """A segment that is being written by compaction."""

    __slots__ = ("_buffered", "_buffered_bytes", "_unsynced_bytes")
    ending = CLEANED_SUFFIX

    def __init__(self, files: Files, directory: Path, base_offset: int, *, config: LogConfig, created_ms: int, size_bytes: int = 0) -> None:
        super().__init__(files, directory, base_offset, config=config, created_ms=created_ms, size_bytes=size_bytes)
        self._buffered: list[Buffer] = []
        self._buffered_bytes = 0
        self._unsynced_bytes = 0

    def add(self, batch: Buffer, *, last_offset: int, max_timestamp: int) -> None:
        """Append a batch; it is written when enough have come together."""
        self.extend(len(batch), last_offset=last_offset, max_timestamp=max_timestamp)
        self._buffered.append(batch)
        self._buffered_bytes += len(batch)
        if self._buffered_bytes >= _BUFFERED_BYTES or len(self._buffered) >= _BUFFERED_PIECES:
            self._write_buffered()

    def begin_aborted_index(self) -> None:
        """Have an index of aborted transactions, if only an empty one."""
        _ = self.aborted_index  # whatever an interrupted compaction left under its name does not count
        self.has_aborted = True

    def finish(self, *, modified_ms: int) -> None:
        """Write and sync everything; the file keeps the age of what it stands for."""
        self._write_buffered()
        self.seal()
        for handle in (self.handle(), *self.write_indexes()):
            self._files.fsync(handle)
        self._files.set_modified(self.path(), modified_ms)
        self.release()

    def _write_buffered(self) -> None:
        if self._buffered:
            self.write(self._buffered, self.size_bytes - self._buffered_bytes)
            self._unsynced_bytes += self._buffered_bytes
            self._buffered, self._buffered_bytes = [], 0
            if self._unsynced_bytes >= _SYNC_BYTES:
                self._files.fsync(self.handle())
                self._unsynced_bytes = 0


def commit_swap(files: Files, directory: Path, base_offset: int) -> None:
    """Step 1: from now on the new segment counts."""
    _rename(files, directory, base_offset, source=CLEANED_SUFFIX, target=SWAP_SUFFIX)


def complete_swap(files: Files, directory: Path, base_offset: int) -> None:
    """Step 3: the new segment gets its name; the old ones have lost theirs."""
    _rename(files, directory, base_offset, source=SWAP_SUFFIX, target="")


def finish_swaps(files: Files, directory: Path, *, config: LogConfig) -> None:
    """At a start: finish the swaps that a crash interrupted, and remove what was not to be swapped yet."""
    names = files.list_directory(directory)
    swaps = [name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in swaps:
        _finish(files, directory, int(name.partition(".")[0]), names=names, config=config)
    for name in files.list_directory(directory) if swaps else names:
        if name.endswith((SWAP_SUFFIX, CLEANED_SUFFIX)):
            files.unlink(directory / name)
    if swaps:
        files.fsync_directory(directory)


def remove_cleaned(files: Files, directory: Path) -> None:
    """Remove what an unfinished compaction left; for a thread."""
    try:
        names = files.list_directory(directory)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            files.unlink(directory / name)


def _finish(files: Files, directory: Path, base_offset: int, *, names: list[str], config: LogConfig) -> None:
    size = files.status(directory / f"{base_offset:020d}{LOG_SUFFIX}{SWAP_SUFFIX}").size_bytes
    swap = SwapSegment(files, directory, base_offset, config=config, created_ms=0, size_bytes=size)
    end = end_of(files, swap, is_indexed=False)
    swap.release()
    if end is None:
        _logger.error("%s is damaged and is not used", swap.path())
        return
    _logger.info("compaction of %s was interrupted: %s takes its place now", directory, swap.path().name)
    for name in names:
        stem, dot, suffix = name.partition(".")
        if dot + suffix in SEGMENT_SUFFIXES and stem.isdigit() and base_offset < int(stem) < end:
            files.unlink(directory / name)
    complete_swap(files, directory, base_offset)


def _rename(files: Files, directory: Path, base_offset: int, *, source: str, target: str) -> None:
    for suffix in _COMMIT_LAST:
        name = f"{base_offset:020d}{suffix}"
        if files.exists(directory / (name + source)):
            files.rename(directory / (name + source), directory / (name + target))
