"""Batches of plain keys and values, as the broker's own coordinators write and read them: `wire.records` for those who need nothing else.

All records of a batch have one time, consecutive offsets and no headers when they are written; when they are read, times, headers and
offsets are passed over (compaction leaves gaps), but everything is checked as in `wire.records`: a CRC that is wrong is `CorruptMessage`,
records that do not fill their batch exactly are `InvalidRecord`. Written out flat, because it runs over every record at a start.
"""

import struct
from collections.abc import Sequence
from typing import Final

from millstream.buffer import Buffer
from millstream.errors import InvalidRecord
from millstream.wire.batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, NO_PRODUCER_ID, NO_SEQUENCE
from millstream.wire.compression import Codec, codec_of, compress, decompress
from millstream.wire.crc32c import crc32c
from millstream.wire.primitives import zigzag_varint
from millstream.wire.records import check_batch

KeyValue = tuple[bytes, bytes | None]

_SMALLEST_RECORD: Final = 7
_NULL: Final = b"\x01"
_NO_HEADERS: Final = b"\x00"
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")


_VARINTS: Final = tuple(map(zigzag_varint, range(1024)))
"""Nearly all lengths and offsets."""


def _varint(number: int) -> bytes:
    return _VARINTS[number] if number < 1024 else zigzag_varint(number)


def encode_key_values(pairs: Sequence[KeyValue], *, timestamp: int, codec: Codec = Codec.NONE) -> bytes:
    """One batch of the pairs, in their order, all of the same time; a value of None is a tombstone."""
    records = b"".join([encode_record(number, key, value) for number, (key, value) in enumerate(pairs)])
    return batch_of(records, count=len(pairs), timestamp=timestamp, codec=codec)


def encode_record(number: int, key: bytes, value: bytes | None) -> bytes:
    """The record of that number in its batch; nothing follows the value but one byte."""
    start = b"\x00\x00" + _varint(number) + _varint(len(key)) + key
    if value is None:
        return _varint(len(start) + 2) + start + _NULL + _NO_HEADERS
    size = _varint(len(value))
    return _varint(len(start) + len(size) + len(value) + 1) + start + size + value + _NO_HEADERS


def batch_of(records: bytes, *, count: int, timestamp: int, codec: Codec = Codec.NONE) -> bytes:
    """One batch of records that are encoded already."""
    payload = records if codec is Codec.NONE else compress(records, codec)
    covered = _AFTER_CRC.pack(codec, count - 1, timestamp, timestamp, NO_PRODUCER_ID, -1, NO_SEQUENCE, count) + payload
    return _BEFORE_CRC.pack(0, len(covered) + CRC_START - LENGTH_OVERHEAD, -1, MAGIC, crc32c(covered)) + covered


def decode_key_values(batch: Buffer) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of one whole batch."""
    header = check_batch(batch)
    payload = bytes(decompress(memoryview(batch)[HEADER_SIZE:], codec_of(header.codec)))
    if not 0 <= header.record_count <= len(payload) // _SMALLEST_RECORD:
        raise InvalidRecord(f"{header.record_count} records in {len(payload)} bytes")
    try:
        return _walk(payload, header.record_count)
    except IndexError:
        raise InvalidRecord("a batch ends inside a record") from None


def _walk(payload: bytes, count: int) -> list[tuple[bytes | None, bytes | None]]:
    pairs: list[tuple[bytes | None, bytes | None]] = []
    position = 0
    for _ in range(count):
        size, position = _read_varint(payload, position)
        end = position + size
        position += 1
        # Timestamp and offset: only their ends are looked for.
        while payload[position] >= 0x80:
            position += 1
        position += 1
        while payload[position] >= 0x80:
            position += 1
        size, position = _read_varint(payload, position + 1)
        key = None
        if size >= 0:
            stop = position + size
            key = payload[position:stop]
            position = stop
        elif size != -1:
            raise InvalidRecord(f"a key of {size} bytes")
        size, position = _read_varint(payload, position)
        value = None
        if size >= 0:
            stop = position + size
            value = payload[position:stop]
            position = stop
        elif size != -1:
            raise InvalidRecord(f"a value of {size} bytes")
        if position >= end or end > len(payload):
            raise InvalidRecord("the key and value of a record do not fit into it")
        pairs.append((key, value))
        position = end
    if position != len(payload):
        raise InvalidRecord(f"{len(payload) - position} bytes after the last record of a batch")
    return pairs


def _read_varint(payload: bytes, position: int) -> tuple[int, int]:
    byte = payload[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    for shift in range(7, 35, 7):
        position += 1
        byte = payload[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
    raise InvalidRecord("the size of a record is longer than five bytes")
