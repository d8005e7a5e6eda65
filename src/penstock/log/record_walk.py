"""The records of a batch as compaction sees them: keys, offsets, times, and where each record lies. Tight code, run per record.

    record   varint size of what follows | int8 attributes | varlong timestamp delta | varint offset delta
             varint size of the key (-1 = null), key | varint size of the value (-1 = null), value | headers

Varints are zigzag: an even number is twice a value that is not negative, 1 is -1. A batch counts as broken (`InvalidRecord`) if its records
do not fill its bytes exactly, a key or value does not fit its record, or offsets do not grow. Headers of records are not looked into.

A long key is replaced by its digest, which is longer than any short key and so never equal to one: what is remembered per key is bounded.
"""

from hashlib import blake2b
from typing import NamedTuple

from penstock.errors import InvalidRecord

MAX_SHORT_KEY = 32
DIGEST_SIZE = MAX_SHORT_KEY + 1
_MAX_VARINT_BITS = 63


class WalkedRecords(NamedTuple):
    """The records of one batch, field by field; record `n` lies between `ends[n - 1]` (or 0) and `ends[n]`."""

    keys: list[bytes | None]
    offset_deltas: list[int]
    timestamp_deltas: list[int]
    """Zigzag, as they stand in the bytes."""
    ends: list[int]
    tombstones: list[int]
    """Numbers of the records without a value."""


def walk_records(payload: bytes, count: int, *, last_offset_delta: int) -> WalkedRecords:
    """The `count` records that fill `payload`; raises `InvalidRecord` if they do not."""
    walked = WalkedRecords([], [], [], [], [])
    try:
        _walk(payload, count, walked)
    except IndexError:
        raise InvalidRecord("a batch ends inside a record") from None
    end = walked.ends[-1] if walked.ends else 0
    if end != len(payload):
        raise InvalidRecord(f"the records of a batch end at byte {end} of {len(payload)}")
    if walked.offset_deltas and walked.offset_deltas[-1] > last_offset_delta:
        raise InvalidRecord(f"offset delta {walked.offset_deltas[-1]} in a batch that ends at {last_offset_delta}")
    return walked


def _walk(payload: bytes, count: int, walked: WalkedRecords) -> None:  # noqa: C901 -- written out flat: it runs over every record
    keys, offset_deltas, timestamp_deltas, ends, tombstones = walked
    position, previous_delta = 0, -1
    for number in range(count):
        size = payload[position]
        if size < 0x80:
            position += 1
        elif (more := payload[position + 1]) < 0x80:
            size += (more - 1) << 7
            position += 2
        else:
            size, position = long_varint(payload, position)
        end = position + (size >> 1)
        timestamp = payload[position + 1]
        if timestamp < 0x80:
            position += 2
        else:
            timestamp, position = long_varint(payload, position + 1)
        delta = payload[position]
        if delta < 0x80:
            position += 1
        elif (more := payload[position + 1]) < 0x80:
            delta += (more - 1) << 7
            position += 2
        else:
            delta, position = long_varint(payload, position)
        key_size = payload[position]
        if key_size < 0x80:
            position += 1
        else:
            key_size, position = long_varint(payload, position)
        if key_size == 1:
            keys.append(None)
        else:
            value_start = position + (key_size >> 1)
            key = payload[position:value_start]
            position = value_start
            keys.append(key if key_size <= 2 * MAX_SHORT_KEY else blake2b(key, digest_size=DIGEST_SIZE).digest())
        value_size = payload[position]
        if value_size < 0x80:
            position += 1
        elif (more := payload[position + 1]) < 0x80:
            value_size += (more - 1) << 7
            position += 2
        else:
            value_size, position = long_varint(payload, position)
        if value_size == 1:
            tombstones.append(number)
            value_size = 0
        # Odd numbers are negative ones; behind the value there is at least the number of headers.
        if (size | delta | value_size) & 1 or (key_size & 1 and key_size != 1) or position + (value_size >> 1) >= end:
            raise InvalidRecord(f"record {number} of a batch has sizes that do not fit")
        delta >>= 1
        if delta <= previous_delta:
            raise InvalidRecord(f"offset delta {delta} after {previous_delta} in a batch")
        previous_delta = delta
        offset_deltas.append(delta)
        timestamp_deltas.append(timestamp)
        ends.append(end)
        position = end


def long_varint(payload: bytes | bytearray, position: int) -> tuple[int, int]:
    """The varint at `position` without undoing the zigzag, and the position after it."""
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _MAX_VARINT_BITS:
            raise InvalidRecord("a varint is longer than ten bytes")
