"""The header of a record batch (format 2): the only part of a batch that the broker looks at.

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
"""

import struct
from typing import NamedTuple

from millstream.buffer import Buffer
from millstream.wire.crc32c import crc32c

HEADER_SIZE = 61
LENGTH_OVERHEAD = 12
"""Bytes before and including the length field: size of a batch = length + 12."""
STAMPED_SIZE = 16
"""Base offset, length and leader epoch: the prefix that the broker writes anew."""
CRC_START = 21
MAGIC = 2
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_STAMP = struct.Struct(">qii")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")
_make_tuple = tuple.__new__
"""What `_make` of a named tuple does, without a call of Python's: this runs for every batch."""

assert _HEADER.size == HEADER_SIZE


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
    return _make_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))


def compute_crc(batch: Buffer) -> int:
    """CRC-32C over the part of the whole batch that the CRC covers."""
    return crc32c(memoryview(batch)[CRC_START:])


def stamp(header: BatchHeader, *, base_offset: int, leader_epoch: int) -> bytes:
    """The first `STAMPED_SIZE` bytes of the batch as the log stores them."""
    return _STAMP.pack(base_offset, header.length, leader_epoch)


def with_log_append_time(batch: Buffer, *, now_ms: int) -> bytearray:
    """A copy of the batch whose records all have the time `now_ms`, with its CRC made right."""
    changed = bytearray(batch)
    attributes = _ATTRIBUTES.unpack_from(changed, 21)[0] | LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(changed, 21, attributes)
    _MAX_TIMESTAMP.pack_into(changed, 35, now_ms)
    _CRC.pack_into(changed, 17, compute_crc(changed))
    return changed
