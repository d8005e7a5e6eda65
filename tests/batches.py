"""Record batches written by hand, so that any field can be wrong, and read back record by record.

Independent of Millstream's own codecs on purpose. Only what tests need: uncompressed records, or a block that the caller compressed.
"""

import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")


class Record(NamedTuple):
    """One record as a consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Header(NamedTuple):
    """The fields of a batch header."""

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


def now_ms() -> int:
    """The present, as Kafka counts it."""
    return int(time.time() * 1000)


def encode_record(index: int, value: bytes | None, *, key: bytes | None = None, timestamp_delta: int = 0) -> bytes:
    """One record of a batch."""
    body = b"\x00" + varint(timestamp_delta) + varint(index) + _field(key) + _field(value) + varint(0)
    return varint(len(body)) + body


def encode_batch(
    values: list[bytes | None],
    *,
    keys: list[bytes | None] | None = None,
    timestamp: int | None = None,
    timestamp_step: int = 0,
    base_offset: int = 0,
    **fields: int,
) -> bytes:
    """A batch with the given values; `fields` overrides fields of the header, `crc` among them (otherwise it is right)."""
    first = now_ms() if timestamp is None else timestamp
    records = b"".join(
        encode_record(index, value, key=keys[index] if keys else None, timestamp_delta=index * timestamp_step)
        for index, value in enumerate(values)
    )
    fields = {"max_timestamp": first + timestamp_step * (len(values) - 1), "base_offset": base_offset} | fields
    return encode_block(records, len(values), timestamp=first, **fields)


def encode_block(records: bytes, count: int, *, timestamp: int, max_timestamp: int, base_offset: int = 0, **fields: int) -> bytes:
    """A batch around a block of records that is already encoded (and compressed, when `attributes` says so)."""
    header = Header(
        base_offset=base_offset,
        length=HEADER.size - 12 + len(records),
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )._replace(**fields)
    batch = HEADER.pack(*header) + records
    return batch if "crc" in fields else HEADER.pack(*header._replace(crc=crc32c(batch[21:]))) + records


def split_batches(data: bytes) -> Iterator[tuple[Header, bytes]]:
    """Header and whole bytes of each complete batch; what is cut off at the end is left out, as clients do."""
    position = 0
    while position + HEADER.size <= len(data):
        header = Header._make(HEADER.unpack_from(data, position))
        end = position + header.length + 12
        if end > len(data):
            return
        yield header, data[position:end]
        position = end


def decode_records(data: bytes | None) -> list[Record]:
    """All records of the complete, uncompressed batches; a wrong CRC fails the test."""
    records: list[Record] = []
    for header, batch in split_batches(data or b""):
        assert crc32c(batch[21:]) == header.crc, f"wrong CRC at offset {header.base_offset}"
        position = HEADER.size
        for _ in range(header.record_count):
            size, position = read_varint(batch, position)
            end = position + size
            timestamp_delta, position = read_varint(batch, position + 1)
            offset_delta, position = read_varint(batch, position)
            key, position = _read_field(batch, position)
            value, position = _read_field(batch, position)
            records.append(Record(header.base_offset + offset_delta, header.base_timestamp + timestamp_delta, key, value))
            position = end
    return records


def varint(number: int) -> bytes:
    """Zigzag varint."""
    rest = (number << 1) ^ (number >> 63)
    if rest < 0x80:
        return rest.to_bytes()
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint and the position after it."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position


def _field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def _read_field(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    return (None, position) if size < 0 else (data[position : position + size], position + size)
