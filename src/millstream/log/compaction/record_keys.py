"""The keys of the records of a batch, read quickly: the first pass of compaction wants little else of them, and of all of them.

The records of a batch mostly look alike: sizes of two bytes, times and offsets of one or two. So their first fields are read by one
`Struct`, as long as each record has the layout of the one before it, and varints of up to two bytes are looked up. All that
`wire.records.walk_records` checks is checked. What cannot be told in this way (a null key, a varint of three bytes, damage) is not told at
all: then the strict walker decides.

    size | attributes | timestamp delta | offset delta | size of the key | key | size of the value | value | headers
    ╰────────────────────────────── one Struct ─────────────────────────╯       ╰─── looked up ───╯
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, NamedTuple

from millstream.wire.batch import BatchHeader

MAX_SHORT_KEY: Final = 46
DIGEST_SIZE: Final = MAX_SHORT_KEY + 1
"""A long key is replaced by its digest, which is longer than any short key and so never equal to one: what is kept per key is bounded. A
bytes object of this size takes as much memory as one of 32, and a UUID is short."""

_NEVER: Final = 1 << 62
"""The size of what is not of its layout: it ends behind the end of every batch."""
_MORE: Final = 0x80
_ODD_OR_MORE: Final = _MORE | 1
_ONE_BYTE: Final = 64
"""So many even zigzag numbers have one byte."""
_FORMATS: Final = ("", "B", "H")
_Unpack = Callable[[bytes, int], tuple[Any, ...]]


class RecordKeys(NamedTuple):
    """What stands for the key of each record of a batch, and whether any of the records has no value."""

    keys: list[bytes]
    has_tombstones: bool


class _Layout(NamedTuple):
    """How many bytes the first fields of a record have."""

    key_at: int
    """Where the key begins; its size has the byte before."""
    unpack_for: Sequence[_Unpack]
    """Per size of the key as it stands there: what reads size, timestamp delta, offset delta, key and the two bytes after it."""
    size_of: Sequence[int]
    """Per size as it stands there: the whole record's."""
    is_time: Sequence[bool]
    """Per timestamp delta as it stands there: whether it ends where the layout says."""
    delta_of: Sequence[int]
    """Per offset delta as it stands there: what it is, -1 if it is none of this layout."""


def short_key(key: bytes) -> bytes:
    """What stands for a key."""
    return key if len(key) <= MAX_SHORT_KEY else blake2b(key, digest_size=DIGEST_SIZE).digest()


def read_keys(payload: bytes, header: BatchHeader) -> RecordKeys | None:
    """The keys of the records that fill `payload`; None where they are not easily told."""
    keys: list[bytes] = []
    position, delta, count = 0, -1, header.record_count
    has_tombstones = False
    try:
        while (number := len(keys)) < count:
            layout = _layout_at(payload, position)
            if layout is None:
                return None
            value_sizes = _value_sizes(has_tombstones)
            position, delta = _read_alike(payload, keys, count, position=position, delta=delta, layout=layout, value_sizes=value_sizes)
            if len(keys) == number:
                if has_tombstones:
                    return None
                has_tombstones = True
    except (struct.error, IndexError):
        return None
    is_whole = position == len(payload) and delta <= header.last_offset_delta and count >= 0
    return RecordKeys(keys, has_tombstones) if is_whole else None


def _read_alike(
    payload: bytes, keys: list[bytes], count: int, *, position: int, delta: int, layout: _Layout, value_sizes: Sequence[int]
) -> tuple[int, int]:
    """Read keys as long as records have this layout; where the first begins that has not, and the offset delta of the one before it.

    Written out flat: it runs over millions.
    """
    key_at, unpack_for, size_of, is_time, delta_of = layout
    length, add, key_size_at = len(payload), keys.append, key_at - 1
    for _ in range(count - len(keys)):
        key_size = payload[position + key_size_at]
        size, timestamp, offset, key, value_size = unpack_for[key_size](payload, position)
        next_delta = delta_of[offset]
        end = position + size_of[size]
        stop = position + key_at + (key_size >> 1)
        # Behind the value there is at least the number of headers.
        if next_delta <= delta or not is_time[timestamp] or not stop + value_sizes[value_size] < end <= length:
            break
        add(key)
        position, delta = end, next_delta
    return position, delta


def _layout_at(payload: bytes, position: int) -> _Layout | None:
    """The layout of the record that begins there; None if one of its varints is too long."""
    size_bytes = _varint_bytes(payload, position)
    time_bytes = _varint_bytes(payload, position + size_bytes + 1)
    offset_bytes = _varint_bytes(payload, position + size_bytes + 1 + time_bytes)
    return _layout(size_bytes, time_bytes, offset_bytes) if max(size_bytes, time_bytes, offset_bytes) <= 2 else None


def _varint_bytes(payload: bytes, position: int) -> int:
    return 1 if payload[position] < _MORE else 2 if payload[position + 1] < _MORE else 3


@cache
def _layout(size_bytes: int, time_bytes: int, offset_bytes: int) -> _Layout:
    fields = f"<{_FORMATS[size_bytes]}x{_FORMATS[time_bytes]}{_FORMATS[offset_bytes]}x"
    return _Layout(
        size_bytes + 1 + time_bytes + offset_bytes + 1,
        [_unpack(fields, key_size) for key_size in range(256)],
        _even_varints(size_bytes, added=size_bytes, otherwise=_NEVER),
        _times(time_bytes),
        _even_varints(offset_bytes, added=0, otherwise=-1),
    )


def _unpack(fields: str, key_size: int) -> _Unpack:
    if key_size & _ODD_OR_MORE:
        return _refuse
    unpack = Struct(f"{fields}{key_size >> 1}sH").unpack_from
    return unpack if key_size >> 1 <= MAX_SHORT_KEY else partial(_unpack_long, unpack)


def _unpack_long(unpack: _Unpack, payload: bytes, position: int) -> tuple[Any, ...]:
    size, timestamp, offset, key, value_size = unpack(payload, position)
    return size, timestamp, offset, short_key(key), value_size


def _refuse(_payload: bytes, _position: int) -> tuple[Any, ...]:
    """What stands at the place of the key's size is none of one byte: nothing that has a place in the layout."""
    return 0, 0, _ODD_OR_MORE, b"", 0


@cache
def _even_varints(size: int, *, added: int, otherwise: int) -> list[int]:
    """Per number that the bytes of a varint are, the first one lowest: what it counts; `otherwise` if it is negative or of another size."""
    table, counts = [otherwise] * (1 << 8 * size), _counts()
    if size == 1:
        table[:_MORE:2] = counts[added : added + _ONE_BYTE]
        return table
    for high in range(_MORE):
        start, first = high << 8 | _MORE, _ONE_BYTE * high + added
        table[start : start + _MORE : 2] = counts[first : first + _ONE_BYTE]
    return table


@cache
def _counts() -> list[int]:
    """The numbers in all tables: one object each, so that caches hold more of them."""
    return list(range(_ONE_BYTE * _MORE + 2))


@cache
def _value_sizes(has_tombstones: bool) -> list[int]:
    """Per first two bytes of a value with its size: how many bytes it has. Where the size has one byte, the second one may be any."""
    table = list(_even_varints(2, added=2, otherwise=_NEVER))
    one_byte = _even_varints(1, added=1, otherwise=_NEVER)[:_MORE]
    if has_tombstones:
        one_byte[1] = 1
    for high in range(256):
        table[high << 8 : high << 8 | _MORE] = one_byte
    return table


@cache
def _times(size: int) -> list[bool]:
    if size == 1:
        return [True] * _MORE + [False] * _MORE
    return ([False] * _MORE + [True] * _MORE) * _MORE + [False] * (256 * _MORE)
