"""A segment under another name: while compaction writes it (`.cleaned`), and while it takes the place of others (`.swap`).

00000000000000000042.log.cleaned   .index.cleaned   .timeindex.cleaned      being written by the cleaner; removed at a start
00000000000000000042.log.swap      .index.swap      .timeindex.swap         complete and synced; a start finishes the swap, see `swap`
"""

from pathlib import Path
from typing import ClassVar

from millstream.buffer import Buffer
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.segment import LOG_SUFFIX, Segment

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_BUFFERED_BYTES = 1 << 20
_BUFFERED_PIECES = 512
"""Linux takes 1024 in one call."""
_SYNC_BYTES = 32 << 20
"""A disk that gets a gigabyte to sync at once keeps everybody else waiting."""


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

    def finish(self, *, modified_ms: int) -> None:
        """Write and sync everything; the file keeps the age of what it stands for."""
        self._write_buffered()
        self.seal()
        for handle in (self.handle(), self.offset_index.handle(), self.time_index.handle()):
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
