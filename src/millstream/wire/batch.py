"""Record batches of format 2, from the outside: the header, where one batch ends and the next begins, and how one is sealed.

No other place knows the bytes of a header, but for the compiled kernels of `spark`; the records inside are those of `wire.records`. On the
produce and fetch path the header is all that the broker looks at.

    offset  size  field                    covered by the CRC
         0     8  base offset              no: the broker stamps it
         8     4  length of what follows   no
        12     4  partition leader epoch   no: the broker stamps it
        16     1  magic, 2                 no
        17     4  CRC-32C of all from 21   -
        21     2  attributes               yes
        23     4  last offset delta        yes
        27     8  base timestamp           yes
        35     8  max timestamp            yes
        43     8  producer id              yes
        51     2  producer epoch           yes
        53     4  base sequence            yes
        57     4  number of records        yes
        61        the records, compressed as one block or not

Attributes: bits 0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd), 3 timestamp type (1 = LogAppendTime), 4 transactional, 5 control,
6 base timestamp is a delete horizon. What the broker stamps lies before the CRC, so stamping never recomputes it.

`split_batches` checks sizes against the bytes that are there, `checked_header` size, format and CRC; what is wrong is a `CorruptMessage`.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage
from millstream.wire.crc32c import crc32c

HEADER_SIZE: Final = 61
LENGTH_POSITION: Final = 8
LENGTH_OVERHEAD: Final = 12
"""Bytes before and including the length field: size of a batch = length + 12."""
_LENGTH_WITHOUT_RECORDS: Final = HEADER_SIZE - LENGTH_OVERHEAD
STAMPED_SIZE: Final = 16
"""Base offset, length and leader epoch: the prefix that the broker writes anew."""
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
CRC_START: Final = 21
"""From here on, which is where the attributes are, the CRC covers everything."""
FLAGS_POSITION: Final = 22
"""The lower half of the attributes: codec, TRANSACTIONAL, CONTROL."""
_MAX_TIMESTAMP_POSITION: Final = 35

MAGIC: Final = 2
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""The fields of a `BatchHeader`, for loops that run over gigabytes and cannot afford one."""
HEADER_TO_LAST_OFFSET: Final = struct.Struct(">qiibIhi")
"""The first of them, up to the last offset delta."""
_NOT_COVERED: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">hiqqqhii")
_FIRST_COVERED: Final = 5
_STAMP: Final = struct.Struct(">qii")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">i")
_make_tuple = tuple.__new__
"""What `_make` of a named tuple does, without a call of Python's: this runs for every batch."""

assert HEADER.size == HEADER_SIZE


class BatchHeader(NamedTuple):
    """The fields of a batch header, as they stand in the bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch in bytes."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; sequences wrap around after 2^31 - 1."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def index_timestamp(self) -> int:
        """The largest time of a record that is there: none in a batch that compaction emptied."""
        return self.max_timestamp if self.record_count else NO_TIMESTAMP

    @property
    def codec(self) -> int:
        """Number of the compression codec."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether this is a marker of the broker's (commit, abort), not data."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        """Whether the max timestamp was set by the broker and holds for every record."""
        return bool(self.attributes & LOG_APPEND_TIME)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the caller has made sure that there are `HEADER_SIZE` bytes."""
    return _make_tuple(BatchHeader, HEADER.unpack_from(buffer, position))


def checked_header(batch: Buffer) -> BatchHeader:
    """The header of exactly one batch, whose size, format and CRC are right."""
    if len(batch) < HEADER_SIZE:
        raise CorruptMessage(f"a batch of {len(batch)} bytes is shorter than its header")
    header = read_header(batch)
    if header.size_bytes != len(batch):
        raise CorruptMessage(f"a batch says that it has {header.size_bytes} bytes and has {len(batch)}")
    if header.magic != MAGIC:
        raise CorruptMessage(f"a batch of format {header.magic}; only format {MAGIC} is known")
    if compute_crc(batch) != header.crc:
        raise CorruptMessage("the CRC of a batch is wrong")
    return header


def split_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and bytes of the whole batches that stand one after the other; only their sizes are checked. A last one that is cut off, as a
    fetch may leave it, is left out."""
    view = memoryview(buffer)
    position = 0
    while position + HEADER_SIZE <= len(view):
        header = read_header(view, position)
        end = position + header.length + LENGTH_OVERHEAD
        if end - position < HEADER_SIZE:
            raise CorruptMessage(f"a batch cannot have {header.size_bytes} bytes")
        if end > len(view):
            return
        yield header, view[position:end]
        position = end


def end_of_batches(view: memoryview, position: int, *, most: int) -> int:
    """The position after at most so many whole batches from `position` on; that itself if there is none, or it makes no sense."""
    size = len(view)
    for _ in range(most):
        if position + HEADER_SIZE > size:
            break
        end = position + _LENGTH.unpack_from(view, position + LENGTH_POSITION)[0] + LENGTH_OVERHEAD
        if not position + HEADER_SIZE <= end <= size:
            break
        position = end
    return position


def compute_crc(batch: Buffer) -> int:
    """CRC-32C over the part of the whole batch that the CRC covers."""
    return crc32c(memoryview(batch)[CRC_START:])


def seal(header: BatchHeader, records: Buffer) -> bytes:
    """The batch of these records, which are compressed already if the header says so; its length and CRC are made right."""
    return sealed_header(header[_FIRST_COVERED:], records, header.base_offset, header.leader_epoch) + records


def sealed_header(covered_fields: tuple[int, ...], records: Buffer, base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    """The bytes that go before these records; the fields are those of a `BatchHeader` that the CRC covers, from the attributes on."""
    covered = _COVERED.pack(*covered_fields)
    length = len(records) + _LENGTH_WITHOUT_RECORDS
    return _NOT_COVERED.pack(base_offset, length, leader_epoch, MAGIC, crc32c(records, crc32c(covered))) + covered


def stamp(header: BatchHeader, *, base_offset: int, leader_epoch: int) -> bytes:
    """The first `STAMPED_SIZE` bytes of the batch as the log stores them."""
    return _STAMP.pack(base_offset, header.length, leader_epoch)


def with_log_append_time(batch: Buffer, *, now_ms: int) -> bytearray:
    """A copy of the batch whose records all have the time `now_ms`, with its CRC made right."""
    changed = bytearray(batch)
    attributes = _ATTRIBUTES.unpack_from(changed, CRC_START)[0] | LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(changed, CRC_START, attributes)
    _MAX_TIMESTAMP.pack_into(changed, _MAX_TIMESTAMP_POSITION, now_ms)
    _CRC.pack_into(changed, CRC_POSITION, compute_crc(changed))
    return changed
