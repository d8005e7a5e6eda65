"""Reading the files of a partition as they lie there, without opening a log: batches and index entries, each with a verdict.

Nothing is repaired and nothing is trusted: a length that cannot be is damage, not a reason to read a gigabyte. Kafka's files are the same
files, so this reads those too. A file that a running broker writes to may end in the middle of a batch; that is reported like any
torn tail.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from millstream.files import FileHandle, Files
from millstream.log.offset_index import ENTRY as OFFSET_ENTRY
from millstream.log.time_index import ENTRY as TIME_ENTRY
from millstream.wire.batch import CRC_START, HEADER_SIZE, MAGIC, BatchHeader, read_header
from millstream.wire.crc32c import crc32c

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class InspectedBatch:
    """A batch, where it lies, and what is wrong with it, if anything is; `header` is None where there is none to read."""

    position: int
    header: BatchHeader | None
    has_right_crc: bool = False
    problem: str | None = None


@dataclass(frozen=True)
class InspectedEntry:
    """An index entry: `key` is an absolute offset or a timestamp, `value` a position or an absolute offset."""

    key: int
    value: int
    problem: str | None = None


class SegmentFile:
    """A `.log` file, read batch by batch."""

    def __init__(self, path: Path) -> None:
        self._files = Files()
        self._handle: FileHandle = self._files.open(path, read_only=True)
        self.size_bytes = self._files.size(self._handle)
        self.base_offset = base_offset_of(path)

    def batches(self) -> Iterator[InspectedBatch]:
        """Every batch from the start; ends at the end of the file or where the next batch cannot be found any more."""
        position, next_offset = 0, self.base_offset
        while position < self.size_bytes:
            header = self.header_at(position)
            lost = self._why_lost(header, position)
            if header is None or lost is not None:
                is_batch = header is not None and header.magic == MAGIC
                yield InspectedBatch(position, header if is_batch else None, problem=lost)
                return
            inspected = self._inspect(header, position, next_offset=next_offset)
            yield inspected
            position += header.size_bytes
            if inspected.has_right_crc:  # a damaged batch must not make the next ones look wrong
                next_offset = max(next_offset, header.next_offset)

    def header_at(self, position: int) -> BatchHeader | None:
        """The header at this position, or None if the file ends before that."""
        raw = self._files.pread(self._handle, HEADER_SIZE, position) if position >= 0 else b""
        return read_header(raw) if len(raw) == HEADER_SIZE else None

    def batch_bytes(self, batch: InspectedBatch) -> bytes:
        """All the bytes of a batch that was found."""
        assert batch.header is not None
        return self._files.pread(self._handle, batch.header.size_bytes, batch.position)

    def _why_lost(self, header: BatchHeader | None, position: int) -> str | None:
        """Why it is not known where the next batch would start, or None if it is."""
        left = self.size_bytes - position
        if header is None:
            return f"the file ends in the middle of a batch header ({left} of {HEADER_SIZE} bytes)"
        if header.magic != MAGIC:
            return f"no batch of format {MAGIC} here (magic {header.magic}); the {left} bytes from here on were not read"
        if header.size_bytes < HEADER_SIZE:
            return f"the batch says it is {header.size_bytes} bytes long, less than its header; the {left} bytes from here on were not read"
        if header.size_bytes > left:
            return f"the file ends in the middle of a batch ({left} of {header.size_bytes} bytes)"
        return None

    def _inspect(self, header: BatchHeader, position: int, *, next_offset: int) -> InspectedBatch:
        """The verdict on a batch that is there as a whole."""
        computed = self._crc(position + CRC_START, position + header.size_bytes)
        problem = None
        if computed != header.crc:
            problem = f"wrong CRC: stored {header.crc:#010x}, computed {computed:#010x}"
        elif header.base_offset < next_offset:
            problem = f"base offset {header.base_offset} where at least {next_offset} has to follow"
        elif header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
            problem = f"{header.record_count} records cannot end at offset {header.last_offset}"
        return InspectedBatch(position, header, computed == header.crc, problem)

    def _crc(self, position: int, end: int) -> int:
        """CRC-32C of a stretch of the file, in pieces, so that a big batch costs no memory."""
        crc = 0
        while position < end:
            piece = self._files.pread(self._handle, min(CHUNK_BYTES, end - position), position)
            if not piece:
                break
            crc = crc32c(piece, crc)
            position += len(piece)
        return crc


def inspect_offset_index(path: Path) -> Iterator[InspectedEntry]:
    """Entries of a `.index` file; each is checked against the segment beside it, if that is there."""
    base_offset = base_offset_of(path)
    segment_path = path.with_suffix(".log")
    segment = SegmentFile(segment_path) if segment_path.exists() else None

    def check(offset: int, position: int) -> str | None:
        if segment is None:
            return None
        header = segment.header_at(position)
        if header is None or header.magic != MAGIC:
            return f"no batch starts at position {position} of the segment"
        if header.last_offset != base_offset + offset:
            return f"the batch at position {position} ends at offset {header.last_offset}"
        return None

    for key, value, problem in _entries(path, OFFSET_ENTRY, check=check):
        yield InspectedEntry(base_offset + key, value, problem)


def inspect_time_index(path: Path) -> Iterator[InspectedEntry]:
    """Entries of a `.timeindex` file, keys are timestamps."""
    base_offset = base_offset_of(path)
    for key, value, problem in _entries(path, TIME_ENTRY, check=lambda _timestamp, _offset: None):
        yield InspectedEntry(key, base_offset + value, problem)


def base_offset_of(path: Path) -> int:
    """The offset in the name of a segment's file; 0 for a file that was renamed."""
    return int(path.stem) if path.stem.isascii() and path.stem.isdigit() else 0


def _entries(path: Path, entry: Struct, *, check: Callable[[int, int], str | None]) -> Iterator[tuple[int, int, str | None]]:
    """Entries in order, up to the zeros that Kafka puts at the end of the index of an open segment (no entry is all zeros)."""
    content = Files().read_bytes(path)
    whole = len(content) - len(content) % entry.size
    zeros_from = len(content.rstrip(b"\0"))
    previous = (-1, -1)
    for number, (key, value) in enumerate(entry.iter_unpack(content[:whole])):
        if number * entry.size >= zeros_from:
            break
        grows = key > previous[0] and value > previous[1]
        yield key, value, check(key, value) if grows else f"the entry does not follow {previous}"
        previous = (key, value)
    if whole < len(content):
        yield 0, 0, f"{len(content) - whole} bytes at the end are no whole entry"
