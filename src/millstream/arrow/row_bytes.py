"""Byte strings put together row by row, a column at a time: how Avro messages and JSON texts are built without an object per row.

A `RowBytes` has a byte string for each row, most often a part of what the row will be in the end. `join` puts parts side by side, `fill`
makes a part that is the same everywhere, `only` empties rows, `group` makes one row of the rows of a list's items. Only `join` copies.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from millstream.arrow.binary_columns import BinaryColumn, Offsets
from millstream.arrow.kernels.compiled import Bytes, Flags, compiled
from millstream.arrow.kernels.raw_memory import copy_bytes


class RowBytes(NamedTuple):
    """Row i is data[starts[i]:ends[i]]."""

    starts: Offsets
    ends: Offsets
    data: Bytes


def from_column(column: BinaryColumn) -> RowBytes:
    """The bytes of a column; where it is null they mean nothing."""
    offsets = column.offsets.astype(np.int64, copy=False)
    return RowBytes(offsets[:-1], offsets[1:], column.data)


def fill(content: bytes, row_count: int) -> RowBytes:
    """The same bytes in every row."""
    return RowBytes(
        np.zeros(row_count, dtype=np.int64), np.full(row_count, len(content), dtype=np.int64), np.frombuffer(content, dtype=np.uint8)
    )


def only(part: RowBytes, rows: Flags) -> RowBytes:
    """The bytes of some rows; the others are empty."""
    return part._replace(ends=np.where(rows, part.ends, part.starts))


def group(items: RowBytes, offsets: Offsets) -> RowBytes:
    """For each list the bytes of its items; `items` must stand one after the other, as `join` leaves them."""
    edges = np.append(items.starts, items.ends[-1] if len(items.ends) else 0)
    return RowBytes(edges[offsets[:-1]], edges[offsets[1:]], items.data)


def join(parts: Sequence[RowBytes]) -> RowBytes:
    """The parts of each row side by side."""
    sizes = sum((part.ends - part.starts for part in parts[1:]), start=parts[0].ends - parts[0].starts)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    data = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    places = starts.copy()
    for part in parts:
        _append(part, places, data)
    return RowBytes(starts, ends, data)


def to_column(part: RowBytes, is_null: Flags) -> BinaryColumn:
    """A column of what `join` has made."""
    return BinaryColumn(np.append(part.starts, part.ends[-1] if len(part.ends) else 0), part.data, is_null)


@compiled
def _append(part: RowBytes, places: Offsets, out: Bytes) -> None:
    for row in range(places.size):
        size = part.ends[row] - part.starts[row]
        if size:
            copy_bytes(out, places[row], part.data, part.starts[row], size)
            places[row] += size


@compiled
def zigzag_varints(numbers: Offsets) -> RowBytes:
    """Avro's form of int and long."""
    ends = np.empty(numbers.size, dtype=np.int64)
    data = np.empty(numbers.size * 10, dtype=np.uint8)
    position = 0
    for row in range(numbers.size):
        number = numbers[row]
        # Without its sign bit a shifted number is the same, and what is left can be shifted as if it had none.
        rest = (number << 1) ^ (number >> 63)
        while rest < 0 or rest > 0x7F:
            data[position] = rest & 0x7F | 0x80
            position += 1
            rest = rest >> 7 & 0x01FFFFFFFFFFFFFF
        data[position] = rest
        position += 1
        ends[row] = position
    starts = np.empty(numbers.size, dtype=np.int64)
    if numbers.size:
        starts[0] = 0
        starts[1:] = ends[:-1]
    return RowBytes(starts, ends, data)


@compiled
def big_endian_decimals(words: Bytes, row_count: int, fixed_size: int) -> RowBytes:
    """Arrow's decimals, 16 bytes each and least significant first, as Avro's: big-endian, of one size or (0) as short as can be."""
    starts = np.empty(row_count, dtype=np.int64)
    ends = np.empty(row_count, dtype=np.int64)
    data = np.empty(row_count * max(fixed_size, 16), dtype=np.uint8)
    position = 0
    for row in range(row_count):
        word = row * 16
        sign = 0xFF if words[word + 15] & 0x80 else 0
        size = 16
        while size > 1 and words[word + size - 1] == sign and (words[word + size - 2] & 0x80) == (sign & 0x80):
            size -= 1
        starts[row] = position
        for _ in range(size, fixed_size):
            data[position] = sign
            position += 1
        for index in range(size - 1, -1, -1):
            data[position] = words[word + index]
            position += 1
        ends[row] = position
    return RowBytes(starts, ends, data)
