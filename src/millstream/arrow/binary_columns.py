"""Columns of Arrow as the plain arrays that kernels take: no copy of the bytes, no Python object per row.

    BinaryColumn    offsets int[n + 1], data uint8[], is_null bool[n]: row i is data[offsets[i]:offsets[i + 1]]
    HeaderColumn    the same for lists: row i has the headers offsets[i] to offsets[i + 1] - 1 of the two binary columns
    Rows            the columns of a record

Offsets are int32 in columns that the record kernel wrote, Arrow's own, and int64 in columns that came from Arrow: there strings, binaries
and their large forms are one kind. A slice of an Arrow array keeps its parent's buffers: the offsets say where it begins.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrow.kernels.compiled import Bytes, Flags, Ints

Offsets = Ints

_NO_BYTES: Bytes = np.zeros(0, dtype=np.uint8)


class BinaryColumn(NamedTuple):
    """Byte strings, some of them null."""

    offsets: npt.NDArray[np.signedinteger[Any]]
    data: Bytes
    is_null: Flags

    def to_arrow(self, kind: pa.DataType | None = None) -> pa.Array:
        """A column with offsets of int32 as an Arrow array, `binary` unless said otherwise, sharing the bytes."""
        null_count = int(np.count_nonzero(self.is_null))
        buffers = [validity(self.is_null) if null_count else None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(kind or pa.binary(), len(self.is_null), buffers, null_count=null_count)


class HeaderColumn(NamedTuple):
    """Lists of a key and a value."""

    offsets: Offsets
    is_null: Flags
    keys: BinaryColumn
    values: BinaryColumn


class Rows(NamedTuple):
    """The columns that become records; where there is no column of headers, an empty one stands in for it."""

    key: BinaryColumn
    value: BinaryColumn
    headers: HeaderColumn
    has_headers: bool


def binary_column(array: pa.Array) -> BinaryColumn:
    """A column of strings or binaries."""
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    return BinaryColumn(
        _read_offsets(offsets, array, dtype="int64" if is_large else "int32"),
        _NO_BYTES if data is None else np.frombuffer(data, dtype=np.uint8),
        null_flags(array),
    )


def null_column(length: int) -> BinaryColumn:
    """A column that is not there: every row is null."""
    return BinaryColumn(np.zeros(length + 1, dtype=np.int64), _NO_BYTES, np.ones(length, dtype=np.bool_))


def header_column(array: pa.Array) -> HeaderColumn:
    """A column `array<struct<key string, value binary>>`."""
    is_large = pa.types.is_large_list(array.type)
    # Not `field`: a struct's children know neither its nulls nor its slice, `flatten` brings both to them.
    keys, values = array.values.flatten()
    offsets = _read_offsets(array.buffers()[1], array, dtype="int64" if is_large else "int32")
    return HeaderColumn(offsets, null_flags(array), binary_column(keys), binary_column(values))


def no_headers() -> HeaderColumn:
    """Stands in for a column that is not there."""
    return HeaderColumn(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.bool_), null_column(0), null_column(0))


def validity(is_null: Flags) -> pa.Buffer:
    """Arrow's bits for an array that has nulls."""
    return pa.py_buffer(np.packbits(~is_null, bitorder="little"))


def list_offsets(lists: pa.Array) -> Offsets:
    """Where the items of each list begin in its flattened items, and where those of the last one end."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


def entries_of_maps(maps: pa.Array) -> pa.Array:
    """Maps as lists of structs of key and value."""
    key = pa.field(maps.type.key_field.name, maps.type.key_type, nullable=False)
    return maps.cast(pa.list_(pa.struct([key, maps.type.item_field])))


def is_text(kind: pa.DataType) -> bool:
    """Whether it is a column of strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether it is a column of byte strings."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def null_flags(array: pa.Array) -> Flags:
    """Which rows are null."""
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    flags: Flags = array.is_null().to_numpy(zero_copy_only=False)
    return flags


def _read_offsets(buffer: pa.Buffer | None, array: pa.Array, *, dtype: str) -> Offsets:
    if buffer is None or buffer.size == 0:  # Arrow allows an empty array to have none
        return np.zeros(len(array) + 1, dtype=np.int64)
    return np.frombuffer(buffer, dtype=dtype)[array.offset : array.offset + len(array) + 1].astype(np.int64)
