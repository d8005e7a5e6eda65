"""Whole batches, record by record: for tools, compaction, recompression and tests. The produce and fetch paths never come here.

    record   varint size of what follows | int8 attributes, unused | varlong timestamp - base timestamp | varint offset - base offset
             varint size of the key (-1 = null), key | varint size of the value (-1 = null), value
             varint number of headers, each: varint size of the key, key | varint size of the value (-1 = null), value

Varints are zigzag. The records stand one after the other, and all of them may be compressed as one block. Reading trusts nothing: the CRC
is checked first (`CorruptMessage`), then sizes, counts and the order of offsets against the bytes that are there (`InvalidRecord`).
Gaps between offsets are fine: compaction leaves them.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage, InvalidRecord
from millstream.wire.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    compute_crc,
    read_header,
)
from millstream.wire.compression import MAX_DECOMPRESSED_BYTES, Codec, codec_of, compress, decompress
from millstream.wire.crc32c import crc32c
from millstream.wire.primitives import zigzag_varint

SMALLEST_RECORD: Final = 7
_SMALLEST_HEADER: Final = 2
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8


class Record(NamedTuple):
    """A message as its producer sent it, with the offset the log gave it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ProducerStamp(NamedTuple):
    """Who wrote a batch, if an idempotent or transactional producer did."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER: Final = ProducerStamp()


def split_batches(buffer: Buffer) -> Iterator[memoryview]:
    """The whole batches that stand one after the other; a last one that is cut off, as a fetch may leave it, is left out."""
    view = memoryview(buffer)
    position = 0
    while position + HEADER_SIZE <= len(view):
        size = _LENGTH.unpack_from(view, position + _LENGTH_POSITION)[0] + LENGTH_OVERHEAD
        if size < HEADER_SIZE:
            raise CorruptMessage(f"a batch cannot have {size} bytes")
        if position + size > len(view):
            return
        yield view[position : position + size]
        position += size


def check_batch(batch: Buffer) -> BatchHeader:
    """The header of a batch whose size, format and CRC are right."""
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


def decode_records(batch: Buffer, *, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """The records of one whole batch, checked as they come; at most `limit` bytes of them when decompressed."""
    header = check_batch(batch)
    payload = bytes(decompress(memoryview(batch)[HEADER_SIZE:], codec_of(header.codec), limit=limit))
    if not 0 <= header.record_count <= len(payload) // SMALLEST_RECORD:
        raise InvalidRecord(f"{header.record_count} records in {len(payload)} bytes")
    position = 0
    previous_delta = -1
    for _ in range(header.record_count):
        record, offset_delta, position = _read_record(payload, position, header=header)
        if not previous_delta < offset_delta <= header.last_offset_delta:
            raise InvalidRecord(f"offset delta {offset_delta} after {previous_delta} in a batch that ends at {header.last_offset_delta}")
        previous_delta = offset_delta
        yield record
    if position != len(payload):
        raise InvalidRecord(f"{len(payload) - position} bytes after the last record of a batch")


def _read_record(payload: bytes, position: int, *, header: BatchHeader) -> tuple[Record, int, int]:
    try:
        size, position = read_varint(payload, position)
        end = position + size
        if size < SMALLEST_RECORD - 1 or end > len(payload):
            raise InvalidRecord(f"a record of {size} bytes in the {len(payload) - position} bytes left of the batch")
        timestamp_delta, position = read_varint(payload, position + 1)
        offset_delta, position = read_varint(payload, position)
        key, position = _read_bytes(payload, position, end=end)
        value, position = _read_bytes(payload, position, end=end)
        if payload[position] == 0:
            headers: tuple[tuple[str, bytes | None], ...] = ()
            position += 1
        else:
            headers, position = _read_headers(payload, position, end=end)
    except IndexError:
        raise InvalidRecord("a batch ends inside a record") from None
    if position != end:
        raise InvalidRecord(f"the fields of a record end {end - position} bytes before the record does")
    timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), offset_delta, position


def read_varint(payload: Buffer, position: int) -> tuple[int, int]:
    """The zigzag varint at `position`, and the position after it; IndexError if the bytes end inside it."""
    byte = payload[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while True:
        position += 1
        byte = payload[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
        if shift > 63:
            raise InvalidRecord("a varint is longer than ten bytes")


def _read_bytes(payload: bytes, position: int, *, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(payload, position)
    if size == -1:
        return None, position
    stop = position + size
    if size < -1 or stop > end:
        raise InvalidRecord(f"a key or value of {size} bytes in the {end - position} bytes left of its record")
    return payload[position:stop], stop


def _read_headers(payload: bytes, position: int, *, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(payload, position)
    if not 0 <= count * _SMALLEST_HEADER <= end - position:
        raise InvalidRecord(f"{count} headers in the {end - position} bytes left of a record")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(payload, position, end=end)
        if key is None:
            raise InvalidRecord("the key of a record header is null")
        try:
            name = key.decode()
        except UnicodeDecodeError:
            raise InvalidRecord("the key of a record header is not valid UTF-8") from None
        value, position = _read_bytes(payload, position, end=end)
        headers.append((name, value))
    return tuple(headers), position


def encode_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int | None = None,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    producer: ProducerStamp = NO_PRODUCER,
    flags: int = 0,
    max_timestamp: int | None = None,
) -> bytes:
    """A batch of the records, in the order of their offsets. `flags` are the bits of the attributes other than the codec. What is not given
    is taken from the records; compaction gives the offsets, because a batch keeps its range when records leave it."""
    entries = list(records)
    base = base_offset if base_offset is not None else entries[0].offset if entries else 0
    base_timestamp = entries[0].timestamp if entries else NO_TIMESTAMP
    if last_offset_delta is None:
        last_offset_delta = entries[-1].offset - base if entries else 0
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in entries), default=NO_TIMESTAMP)
    payload = b"".join(_encode_record(record, base_offset=base, base_timestamp=base_timestamp) for record in entries)
    covered = _AFTER_CRC.pack(
        flags & ~CODEC_MASK | codec, last_offset_delta, base_timestamp, max_timestamp, *producer, len(entries)
    ) + compress(payload, codec)
    length = len(covered) + CRC_START - LENGTH_OVERHEAD
    return _BEFORE_CRC.pack(base, length, leader_epoch, MAGIC, crc32c(covered)) + covered


def rebuild(header: BatchHeader, payload: Buffer, *, codec: Codec, level: int | None = None) -> bytes:
    """The batch with this header around the records in `payload`, compressed by `codec`."""
    fields = header._replace(attributes=header.attributes & ~CODEC_MASK | codec)
    covered = _AFTER_CRC.pack(*fields[5:]) + compress(payload, codec, level=level)
    length = len(covered) + CRC_START - LENGTH_OVERHEAD
    return _BEFORE_CRC.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc32c(covered)) + covered


def _encode_record(record: Record, *, base_offset: int, base_timestamp: int) -> bytes:
    offset, timestamp, key, value, headers = record
    parts = [
        b"\x00",
        zigzag_varint(timestamp - base_timestamp),
        zigzag_varint(offset - base_offset),
        _sized(key),
        _sized(value),
        zigzag_varint(len(headers)),
    ]
    for name, content in headers:
        parts += (_sized(name.encode()), _sized(content))
    body = b"".join(parts)
    return zigzag_varint(len(body)) + body


def _sized(content: bytes | None) -> bytes:
    return zigzag_varint(-1) if content is None else zigzag_varint(len(content)) + content
