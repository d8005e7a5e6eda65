"""The records of a batch, field by field: keys, offsets, times, and where each record lies. Tight code, run per record.

    record   varint size of what follows | int8 attributes | varlong timestamp delta | varint offset delta
             varint size of the key (-1 = null), key | varint size of the value (-1 = null), value | headers

Varints are zigzag: an even number is twice a value that is not negative, 1 is -1. A batch counts as broken (`InvalidRecord`) if its records
do not fill its bytes exactly, a key or value does not fit its record, or offsets do not grow. Compaction (`batch_cleaning`) does not look
into headers; the check of what producers send (`record_scan`) does, in slices, and has no use for the keys.

A long key is replaced by its digest, which is longer than any short key and so never equal to one: what is remembered per key is bounded.
"""

from hashlib import blake2b
from typing import Any, Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import InvalidRecord

MAX_SHORT_KEY = 32
DIGEST_SIZE = MAX_SHORT_KEY + 1
MAX_HEADERS: Final = 1_000
"""Most headers of one record that are looked into: there could be half a million, which no client writes."""
_MAX_VARINT_BITS = 63
_SMALLEST_HEADER = 2


class WalkedRecords(NamedTuple):
    """Some records of one batch, field by field; record `n` lies between `ends[n - 1]` (or where they begin) and `ends[n]`."""

    keys: list[bytes | None]
    offset_deltas: list[int]
    timestamp_deltas: list[int]
    """Zigzag, as they stand in the bytes."""
    ends: list[int]
    tombstones: list[int]
    """Numbers of the records without a value."""
    keyless: list[int]
    """Numbers of the records without a key."""


def walk_records(payload: bytes, count: int, *, last_offset_delta: int) -> WalkedRecords:
    """The `count` records that fill `payload`; raises `InvalidRecord` if they do not."""
    walk = RecordWalk(payload, count, last_offset_delta=last_offset_delta)
    walked = walk.advance(count)
    walk.check_end()
    return walked


class RecordWalk:
    """How far one has come over the records of a batch."""

    __slots__ = ("_count", "_last_offset_delta", "_looks_into_headers", "_payload", "_position", "_previous_delta", "number")

    def __init__(self, payload: Buffer, count: int, *, last_offset_delta: int, looks_into_headers: bool = False) -> None:
        """With `looks_into_headers` keys are not kept, and a slice ends earlier if there are as many headers as it may have records."""
        self._payload = payload
        self._count = count
        self._last_offset_delta = last_offset_delta
        self._looks_into_headers = looks_into_headers
        self._position = 0
        self._previous_delta = -1
        self.number = 0
        """How many records have been passed."""

    @property
    def is_done(self) -> bool:
        """Whether the last record has been passed."""
        return self.number == self._count

    def advance(self, most: int) -> WalkedRecords:
        """Up to `most` further records."""
        walked = WalkedRecords([], [], [], [], [], [])
        try:
            self._walk(range(self.number, min(self._count, self.number + most)), walked, headers_left=most)
        except IndexError:
            raise InvalidRecord(f"the batch ends before the last of its {self._count} records does") from None
        self.number += len(walked.ends)
        return walked

    def check_end(self) -> None:
        """Raise `InvalidRecord` unless the records end where the batch does."""
        if self._position != len(self._payload):
            raise InvalidRecord(f"the {self._count} records of a batch end at byte {self._position} of {len(self._payload)}")
        if self._previous_delta > self._last_offset_delta:
            raise InvalidRecord(f"offset delta {self._previous_delta} in a batch that ends at {self._last_offset_delta}")

    def _walk(self, numbers: range, walked: WalkedRecords, *, headers_left: int) -> None:  # noqa: C901 -- flat: it runs over every record
        payload: Any = self._payload
        position, previous_delta, looks_into_headers = self._position, self._previous_delta, self._looks_into_headers
        keys, offset_deltas, timestamp_deltas, ends, tombstones, keyless = walked
        for number in numbers:
            size = payload[position]
            if size < 0x80:
                position += 1
            elif (more := payload[position + 1]) < 0x80:
                size += (more - 1) << 7
                position += 2
            else:
                size, position = _long_varint(payload, position)
            end = position + (size >> 1)
            timestamp = payload[position + 1]
            if timestamp < 0x80:
                position += 2
            else:
                timestamp, position = _long_varint(payload, position + 1)
            delta = payload[position]
            if delta < 0x80:
                position += 1
            elif (more := payload[position + 1]) < 0x80:
                delta += (more - 1) << 7
                position += 2
            else:
                delta, position = _long_varint(payload, position)
            key_size = payload[position]
            if key_size < 0x80:
                position += 1
            else:
                key_size, position = _long_varint(payload, position)
            if key_size == 1:
                keys.append(None)
                keyless.append(number)
            else:
                key_start = position
                position += key_size >> 1
                if not looks_into_headers:
                    key = payload[key_start:position]
                    keys.append(key if key_size <= 2 * MAX_SHORT_KEY else blake2b(key, digest_size=DIGEST_SIZE).digest())
            value_size = payload[position]
            if value_size < 0x80:
                position += 1
            elif (more := payload[position + 1]) < 0x80:
                value_size += (more - 1) << 7
                position += 2
            else:
                value_size, position = _long_varint(payload, position)
            if value_size == 1:
                tombstones.append(number)
                value_size = 0
            position += value_size >> 1
            # Odd numbers are negative ones; behind the value there is at least the number of headers.
            if (size | delta | value_size) & 1 or (key_size & 1 and key_size != 1) or position >= end:
                raise InvalidRecord(f"record {number} of a batch has sizes that do not fit")
            delta >>= 1
            if delta <= previous_delta:
                raise InvalidRecord(f"offset delta {delta} after {previous_delta} in a batch")
            previous_delta = delta
            offset_deltas.append(delta)
            timestamp_deltas.append(timestamp)
            ends.append(end)
            if looks_into_headers and (payload[position] or position + 1 != end):
                headers_left -= _check_headers(payload, position, end)
            position = end
            if headers_left <= 0:
                break
        self._position = position
        self._previous_delta = previous_delta


def _check_headers(payload: Buffer, position: int, end: int) -> int:
    """How many headers the record has that ends at `end`; raises unless they fill it. Of very many only the first are looked at."""
    zigzag_count, position = _long_varint(payload, position)
    count = zigzag_count >> 1
    if zigzag_count & 1 or count > (end - position) // _SMALLEST_HEADER:
        raise InvalidRecord(f"a record cannot have {count} headers in {end - position} bytes")
    for _ in range(min(count, MAX_HEADERS)):
        size, position = _long_varint(payload, position)
        if size & 1:
            raise InvalidRecord("the name of a record header is null")
        size, position = _long_varint(payload, position + (size >> 1))
        if size & 1 and size != 1:
            raise InvalidRecord("the value of a record header has a negative size")
        position += 0 if size == 1 else size >> 1
    if position > end or (position < end and count <= MAX_HEADERS):
        raise InvalidRecord(f"the headers of a record end at byte {position} and the record at {end}")
    return count


def _long_varint(payload: Buffer, position: int) -> tuple[int, int]:
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
