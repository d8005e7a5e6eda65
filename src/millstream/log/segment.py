"""One segment: a file of record batches, `<base offset>.log`, and the indexes beside it.

    00000000000000000042.log         batches one after the other, nothing else
    00000000000000000042.index       see offset_index
    00000000000000000042.timeindex   see time_index
    00000000000000000042.txnindex    see transactions.aborted_index; most segments have none

Invariants:
- bytes [0, size_bytes) of the file are whole batches whose offsets grow; bytes after that mean nothing (a failed append) and are
  overwritten;
- every batch lies within 2^31 - 1 offsets of the base offset;
- only the last segment of a log, the active one, is appended to; the others are sealed and opened only when they are read.

The active segment remembers where its last few batches start: readers at the end of the log are the common case, and they then need no look
at any file. No bytes of messages are kept.

Not done here: checking batches, syncing, repairing.
"""

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage
from millstream.files import FileHandle, Files
from millstream.log.config import LogConfig
from millstream.log.offset_index import ENTRY as OFFSET_ENTRY
from millstream.log.offset_index import OffsetIndex
from millstream.log.sparse_index import whole_entries
from millstream.log.time_index import ENTRY as TIME_ENTRY
from millstream.log.time_index import TimeIndex
from millstream.wire.batch import HEADER_SIZE, HEADER_TO_LAST_OFFSET, LENGTH_OVERHEAD, MAGIC, BatchHeader, read_header

if TYPE_CHECKING:
    from millstream.log.transactions.aborted_index import AbortedIndex
    from millstream.log.transactions.open_transactions import AbortedTransaction

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
MAX_RELATIVE_OFFSET = 2**31 - 1

MAX_INDEX_INTERVAL_BYTES = 256 * 1024
"""An index with fewer entries than that would make each reader walk for so long that others wait for it."""

_WALK_BYTES = 8192
_REMEMBERED = 64
_NOTHING_FOUND = (-1, -1)


class TimestampOffset(NamedTuple):
    """The largest timestamp of a segment, and the last offset of the first batch that has it."""

    timestamp: int
    offset: int


class Segment:
    """A piece of the log, from its base offset to the base offset of the next one."""

    __slots__ = (
        "_aborted_index",
        "_bytes_since_index",
        "_directory",
        "_files",
        "_first_timestamp",
        "_found",
        "_handle",
        "_index_capacity_bytes",
        "_index_interval_bytes",
        "_largest",
        "_max_bytes",
        "_offset_index",
        "_preallocated",
        "_recent_last_offsets",
        "_recent_positions",
        "_roll_after_ms",
        "_time_index",
        "base_offset",
        "created_ms",
        "has_aborted",
        "is_index_full",
        "size_bytes",
    )

    def __init__(self, files: Files, directory: Path, base_offset: int, *, config: LogConfig, created_ms: int, size_bytes: int = 0) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self._index_capacity_bytes = 0
        self._index_interval_bytes = 0
        self._max_bytes = 0
        self._roll_after_ms = 0
        self.is_index_full = False
        self._files = files
        self._directory = directory
        self._handle: FileHandle | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._aborted_index: AbortedIndex | None = None
        self.has_aborted = False
        """Whether transactions were aborted by markers in it, so that there is an index of them. Whoever opens a segment sets it."""
        self._largest: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._bytes_since_index = size_bytes
        """Or fewer: where the last entry points is not worth a look into the file. The next one comes early then."""
        self._preallocated = False
        self._found = _NOTHING_FOUND
        """Start and end of the batch that was found last by a look into the file: readers ask for both."""
        self._recent_last_offsets: list[int] = []
        self._recent_positions: list[int] = []
        self.update_config(config)

    @classmethod
    def create(cls, files: Files, directory: Path, base_offset: int, *, config: LogConfig, created_ms: int) -> Self:
        """A new, empty segment; what a crash may have left under its name is emptied."""
        segment = cls(files, directory, base_offset, config=config, created_ms=created_ms)
        handle = segment.handle(create=True)
        if files.size(handle):
            # Not otherwise: ext4 takes what was cut to nothing for a file that is being replaced, and writes all of it to the disk, a
            # gigabyte maybe, while whoever closes it waits.
            files.truncate(handle, 0)
        if config.preallocate:
            files.truncate(handle, config.segment_bytes)
            segment._preallocated = True
        segment.forget_indexes()
        return segment

    def update_config(self, config: LogConfig) -> None:
        """Use other options from now on."""
        self._max_bytes = config.segment_bytes
        self._roll_after_ms = config.max_segment_ms - config.random_segment_jitter()
        self._index_capacity_bytes = config.segment_index_bytes
        self._index_interval_bytes = min(config.index_interval_bytes, MAX_INDEX_INTERVAL_BYTES)

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        """Where the segment's file with this suffix is."""
        return self._directory / f"{self.base_offset:020d}{suffix}"

    @property
    def files(self) -> Files:
        """What its files are read with."""
        return self._files

    @property
    def is_open(self) -> bool:
        """Whether `open` has been called: then appending opens no file that it cannot do without."""
        return self._handle is not None and self._time_index is not None and self._offset_index is not None and self._largest is not None

    def open(self) -> None:
        """Have at hand what appending needs: the .log file, and the ends of the indexes."""
        if self._handle is None:
            self._handle = self._files.open_to_stay(self.path())
        _ = self.largest, self.offset_index, self.time_index
        self.close_indexes()

    def is_file_of(self, handle: FileHandle) -> bool:
        """Whether the handle is the .log file as this segment has it open."""
        return self._handle is handle

    def handle(self, *, create: bool = False, read_only: bool = False) -> FileHandle:
        """The open .log file."""
        handle = self._handle
        if handle is None:
            handle = self._handle = self._files.open(self.path(), create=create, read_only=read_only)
        return handle

    @property
    def offset_index(self) -> OffsetIndex:
        """The index by offset, opened when first asked for."""
        if self._offset_index is None:
            path = self.path(INDEX_SUFFIX)
            written = whole_entries(self._files, path, entry=OFFSET_ENTRY) if self.size_bytes else 0
            self._offset_index = OffsetIndex(self._files, path, written=max(0, written))
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The index by timestamp, opened when first asked for."""
        if self._time_index is None:
            path = self.path(TIME_INDEX_SUFFIX)
            written = whole_entries(self._files, path, entry=TIME_ENTRY) if self.size_bytes else 0
            self._time_index = TimeIndex(self._files, path, written=max(0, written))
        return self._time_index

    @property
    def aborted_index(self) -> "AbortedIndex":
        """The index of aborted transactions, opened when first asked for."""
        if self._aborted_index is None:
            from millstream.log.transactions.aborted_index import ENTRY, AbortedIndex  # most logs have no transactions

            path = self.path(TRANSACTION_INDEX_SUFFIX)
            written = whole_entries(self._files, path, entry=ENTRY) if self.has_aborted else 0
            self._aborted_index = AbortedIndex(self._files, path, written=max(0, written))
        return self._aborted_index

    def add_aborted(self, aborted: "AbortedTransaction") -> None:
        """A marker in this segment aborted a transaction."""
        self.aborted_index.append(aborted)
        self.has_aborted = True

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp and its offset; (-1, base offset) when no record has a time."""
        if self._largest is None:
            index = self.time_index
            if len(index):
                timestamp, relative_offset = index.entry(len(index) - 1)
                self._largest = TimestampOffset(timestamp, self.base_offset + relative_offset)
                index.release()  # Retention asks this of every segment of every log.
            else:
                self._largest = TimestampOffset(-1, self.base_offset)
        return self._largest

    @property
    def age_timestamp(self) -> int:
        """The time retention counts from: the largest timestamp, or the last change of the file if no record has a time."""
        timestamp = self.largest.timestamp
        return timestamp if timestamp >= 0 else self._files.status(self.path()).modified_ms

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which `segment.ms` counts; -1 when there is none."""
        if self._first_timestamp is None:
            if self.size_bytes == 0:
                return -1
            self._first_timestamp = self.header_at(0).index_timestamp
        return self._first_timestamp

    def should_roll(self, size: int, *, last_offset: int, timestamp: int, now_ms: int) -> bool:
        """Whether a batch of this size belongs into a new segment; an empty one takes anything."""
        if not self.size_bytes:
            return False
        if self.size_bytes + size > self._max_bytes or self.is_index_full or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        # Its age is the time since its first batch, as the batches say; since it was made, if they say none.
        first = self.first_timestamp if self._first_timestamp is None else self._first_timestamp
        return (timestamp - first if first >= 0 else now_ms - self.created_ms) > self._roll_after_ms

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write batches at `position`. Readers see them once `extend` has been called for each."""
        handle = self._handle or self.handle()
        written = self._files.pwritev(handle, buffers, position)
        if written != sum(map(len, buffers)):
            self._files.write_all(handle, [memoryview(b"".join(buffers))[written:]], position + written)

    def extend(self, size: int, *, last_offset: int, max_timestamp: int) -> None:
        """The segment is longer by one batch."""
        position = self.size_bytes
        self.account(position, size=size, last_offset=last_offset, max_timestamp=max_timestamp)
        recent = self._recent_last_offsets
        recent.append(last_offset)
        self._recent_positions.append(position)
        if len(recent) > _REMEMBERED:
            del recent[: _REMEMBERED // 2]
            del self._recent_positions[: _REMEMBERED // 2]
        self.size_bytes = position + size

    def account(self, position: int, *, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take note of a batch that is in the file, in timestamps and sparse indexes."""
        if max_timestamp > (self._largest or self.largest).timestamp:
            self._largest = TimestampOffset(max_timestamp, last_offset)
        if position == 0:
            self._first_timestamp = max_timestamp
        if self._bytes_since_index > self._index_interval_bytes:
            self._add_index_entries(last_offset, position)
        self._bytes_since_index += size

    def find(self, offset: int) -> int:
        """Position of the first batch that ends at or after `offset`; `size_bytes` when there is none."""
        recent = self._recent_last_offsets
        number = bisect_left(recent, offset)
        if number > 0 or (recent and self._recent_positions[0] == 0):
            return self._recent_positions[number] if number < len(recent) else self.size_bytes
        position, following = self.offset_index.positions_around(offset - self.base_offset)
        # Where batches are large most have an entry of their own: the next one is of this batch, unless another lies in between.
        if following - position > _WALK_BYTES and self._holds(following, offset):
            return following
        return self._walk(offset, position)

    def end_of_batch_at(self, position: int) -> int:
        """Position after the batch that starts at `position`."""
        positions = self._recent_positions
        number = bisect_left(positions, position + 1)
        if number and positions[number - 1] == position:
            return positions[number] if number < len(positions) else self.size_bytes
        start, end = self._found
        return end if start == position else position + self.header_at(position).size_bytes

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that starts at `position`."""
        found = self._files.pread(self.handle(), HEADER_SIZE, position)
        if len(found) < HEADER_SIZE:
            raise self._damaged(position)
        header = read_header(found)
        if header.magic != MAGIC or header.size_bytes < HEADER_SIZE or position + header.size_bytes > self.size_bytes:
            raise self._damaged(position)
        return header

    def seal(self) -> None:
        """Make the indexes complete and forget what only the active segment needs."""
        self.write_indexes()
        self._recent_last_offsets = []
        self._recent_positions = []

    @property
    def has_unwritten_indexes(self) -> bool:
        """Whether entries are only in memory, though the segment may be sealed: it came from another directory (`copied_to`)."""
        indexes = (self._offset_index, self._time_index, self._aborted_index)
        return any(index is not None and not index.is_written for index in indexes)

    def write_indexes(self) -> Sequence[FileHandle]:
        """Write the index files so that a later start finds them complete; syncing them is the caller's."""
        if self._preallocated:
            self._files.truncate(self.handle(), self.size_bytes)
            self._preallocated = False
        if self.size_bytes == 0:
            return ()
        timestamp, offset = self.largest
        self.time_index.maybe_add(timestamp, offset - self.base_offset)
        # An index without entries is an empty file: no file at all would be taken for a lost one.
        written = self.offset_index.complete(), self.time_index.complete()
        return (*written, self.aborted_index.complete()) if self.has_aborted else written

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that ends at or after `offset`, and what the indexes say of them."""
        position = self.find(offset)
        if position == self.size_bytes:
            return
        self.offset_index.truncate_from(offset - self.base_offset)
        self.time_index.truncate_from(offset - self.base_offset)
        if self.has_aborted:
            self.aborted_index.truncate_from(offset)
        self.cut(position)
        self._recent_last_offsets = []
        self._recent_positions = []
        self._bytes_since_index = 0
        self._first_timestamp = None
        self._reload_largest()

    def cut(self, position: int) -> None:
        """Shorten the file to `position` bytes."""
        self._files.truncate(self.handle(), position)
        self.size_bytes = position
        self._found = _NOTHING_FOUND

    def forget_indexes(self) -> None:
        """Start the indexes anew, empty, to be filled by `account` and `add_aborted`; files are emptied when they are written."""
        self._offset_index = OffsetIndex(self._files, self.path(INDEX_SUFFIX))
        self._time_index = TimeIndex(self._files, self.path(TIME_INDEX_SUFFIX))
        if self.has_aborted:
            # It may stay empty, and would not be written then.
            self._files.unlink(self.path(TRANSACTION_INDEX_SUFFIX))
            self.has_aborted = False
        self._aborted_index = None
        self._largest = TimestampOffset(-1, self.base_offset)
        self._bytes_since_index = 0
        self._recent_last_offsets = []
        self._recent_positions = []

    def unlink(self) -> None:
        """Remove the files, for good."""
        for suffix in SEGMENT_SUFFIXES:
            self._files.unlink(self.path(suffix))

    def mark_deleted(self) -> list[Path]:
        """Rename the files so that no start takes them for a segment; the paths to unlink later."""
        marked = []
        for suffix in SEGMENT_SUFFIXES:
            source = self.path(suffix)
            if self._files.exists(source):
                marked.append(source.with_name(source.name + DELETED_SUFFIX))
                self._files.rename(source, marked[-1])
        return marked

    def copied_to(self, directory: Path, *, config: LogConfig) -> "Segment":
        """The segment over a copy of its .log file in another directory; what the indexes hold goes with it, in memory."""
        copy = Segment(self._files, directory, self.base_offset, config=config, created_ms=self.created_ms, size_bytes=self.size_bytes)
        copy.forget_indexes()
        copy.offset_index.take_entries_of(self.offset_index)
        copy.time_index.take_entries_of(self.time_index)
        if self.has_aborted:
            copy.aborted_index.take_entries_of(self.aborted_index)
            copy.has_aborted = True
        copy._largest = self.largest
        copy._first_timestamp, copy._bytes_since_index = self._first_timestamp, self._bytes_since_index
        copy._recent_last_offsets, copy._recent_positions = list(self._recent_last_offsets), list(self._recent_positions)
        copy.is_index_full = self.is_index_full
        return copy

    def close_indexes(self) -> None:
        """Close the index files until they are searched. May be called in any thread."""
        for index in (self._offset_index, self._time_index, self._aborted_index):
            if index is not None:
                index.close_file()

    def close_files(self) -> None:
        """Close the files until they are read again. May be called in any thread, for a segment that is sealed."""
        self._handle = None
        self.close_indexes()

    def release(self) -> None:
        """Close what can be opened again; regions that wait to be sent keep their handle."""
        self._handle = None
        for index in (self._offset_index, self._time_index, self._aborted_index):
            if index is not None:
                index.release()

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        offset_index = self.offset_index if self._offset_index is None else self._offset_index
        offset_index.add(last_offset - self.base_offset, position)
        timestamp, offset = self._largest or self.largest
        time_index = self.time_index if self._time_index is None else self._time_index
        time_index.maybe_add(timestamp, offset - self.base_offset)
        self._bytes_since_index = 0
        # The time index has never more entries than the offset index, but they are bigger; room is left for the one that sealing adds.
        self.is_index_full = (len(offset_index) + 2) * TIME_ENTRY.size > self._index_capacity_bytes

    def _holds(self, position: int, offset: int) -> bool:
        """Whether there is a batch at `position`, and the offset is one of its own."""
        found = self._files.pread(self.handle(), HEADER_TO_LAST_OFFSET.size, position)
        if len(found) < HEADER_TO_LAST_OFFSET.size:
            return False
        base_offset, length, _, magic, _, _, delta = HEADER_TO_LAST_OFFSET.unpack(found)
        end = position + length + LENGTH_OVERHEAD
        if magic != MAGIC or not base_offset <= offset <= base_offset + delta or not position + HEADER_SIZE <= end <= self.size_bytes:
            return False
        self._found = position, end
        return True

    def _walk(self, offset: int, position: int) -> int:
        """Go from batch to batch until one ends at or after `offset`.

        Bytes that rotted must not make a reader skip records without notice: whatever is not a header that goes on where the last batch
        ended is reported.
        """
        end = self.size_bytes
        handle = self.handle()
        next_offset = self.base_offset
        while position < end:
            chunk = self._files.pread(handle, min(_WALK_BYTES, end - position), position)
            at, last = 0, len(chunk) - HEADER_SIZE
            while at <= last:
                base_offset, length, _, magic, _, _, delta = HEADER_TO_LAST_OFFSET.unpack_from(chunk, at)
                size = length + LENGTH_OVERHEAD
                if magic != MAGIC or base_offset < next_offset or delta < 0 or not HEADER_SIZE <= size <= end - position - at:
                    raise self._damaged(position + at)
                next_offset = base_offset + delta + 1
                if next_offset > offset:
                    self._found = position + at, position + at + size
                    return position + at
                at += size
            if at == 0:
                raise self._damaged(position)
            position += at
        return end

    def _damaged(self, position: int) -> CorruptMessage:
        return CorruptMessage(f"{self.path()} is damaged: no batch at position {position}")

    def _reload_largest(self) -> None:
        """After a cut: the last time index entry, or something younger behind it."""
        self._largest = None
        largest = self.largest
        position = self.find(largest.offset)
        while position < self.size_bytes:
            header = self.header_at(position)
            if header.index_timestamp > largest.timestamp:
                largest = TimestampOffset(header.index_timestamp, header.last_offset)
            position += header.size_bytes
        self._largest = largest
