"""`key.format` and `value.format` = json: a JSON text for each row, a column at a time, in the forms that Spark's `to_json` chooses.

    structs and maps    objects; fields that are null are left out, map entries are not
    binary              base64
    dates, timestamps   "2026-11-15", "2026-11-15T09:30:00.000000Z" (with a time zone always in UTC; without one, without the Z)
    decimals            numbers with their digits
    NaN, infinities     "NaN", "Infinity", "-Infinity": JSON has no numbers for them

Members are written with a comma behind each; the last comma of an object or list becomes its end.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrow.binary_columns import (
    BinaryColumn,
    Offsets,
    binary_column,
    entries_of_maps,
    is_binary,
    is_text,
    list_offsets,
    null_flags,
)
from millstream.arrow.columns import FieldColumns
from millstream.arrow.field_encoding import ColumnMismatch, column_of
from millstream.arrow.kernels.compiled import Bytes, compiled
from millstream.arrow.row_bytes import RowBytes, fill, from_column, group, join, only, to_column

_QUOTE = ord('"')
_BACKSLASH = ord("\\")
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_SHORT = np.frombuffer(bytes(8) + b"btn\0fr" + bytes(18), dtype=np.uint8)
"""The letter of a control character that has a short escape."""
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)


class JsonField:
    """Keys or values as JSON texts."""

    def __init__(self, field: FieldColumns) -> None:
        self._field = field

    def encode(self, batch: pa.RecordBatch) -> BinaryColumn:
        """The texts of a batch of rows."""
        return encode_json(column_of(self._field, batch))


def encode_json(column: pa.Array) -> BinaryColumn:
    """The JSON text of each row; null stays null."""
    is_null = null_flags(column)
    return to_column(join([only(_encode(column), ~is_null)]), is_null)


def _encode(column: pa.Array) -> RowBytes:
    """The text of each row; where it is null, whatever comes."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _object([_member(field.name, child) for field, child in zip(kind, column.flatten(), strict=True)], len(column))
    if pa.types.is_map(kind):
        return _map(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = _or_null(column.flatten())
        return _close(group(join([items, fill(b",", len(items.ends))]), list_offsets(column)), b"[", b"]")
    if is_text(kind):
        return _quote_text(binary_column(column))
    if is_binary(kind):
        return _quote_base64(binary_column(column))
    return _encode_scalar(column)


def _encode_scalar(column: pa.Array) -> RowBytes:
    kind = column.type
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _quote_moments(micros, b'Z"' if kind.tz else b'"')
    if pa.types.is_date(kind):
        return _quoted(column.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _encode_floats(column)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return from_column(binary_column(column.cast(pa.string())))
    if pa.types.is_null(kind):
        return fill(b"null", len(column))
    raise ColumnMismatch(f"a column of type {kind} cannot be written as json: cast it in Spark")


def _encode_floats(column: pa.Array) -> RowBytes:
    texts = column.cast(pa.string())
    for text, said in (("nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        texts = pc.if_else(pc.equal(texts, text), said, texts)
    return from_column(binary_column(texts))


def _or_null(column: pa.Array) -> RowBytes:
    """The text of each row, and the word where it is null."""
    is_null = null_flags(column)
    return join([only(_encode(column), ~is_null), only(fill(b"null", len(column)), is_null)])


def _member(name: str, column: pa.Array) -> RowBytes:
    present = ~null_flags(column)
    named = fill(json.dumps(name, ensure_ascii=False).encode() + b":", len(column))
    return join([only(named, present), only(_encode(column), present), only(fill(b",", len(column)), present)])


def _object(members: list[RowBytes], row_count: int) -> RowBytes:
    return _close(join(members) if members else fill(b"", row_count), b"{", b"}")


def _map(column: pa.Array) -> RowBytes:
    column = entries_of_maps(column)
    keys, values = column.flatten().flatten()
    names = keys if is_text(keys.type) else keys.cast(pa.string())
    count = len(names)
    entries = join([_quote_text(binary_column(names)), fill(b":", count), _or_null(values), fill(b",", count)])
    return _close(group(entries, list_offsets(column)), b"{", b"}")


def _close(members: RowBytes, opening: bytes, closing: bytes) -> RowBytes:
    """Put brackets around members that end with a comma each."""
    is_empty = members.ends == members.starts
    without_comma = members._replace(ends=np.where(is_empty, members.ends, members.ends - 1))
    count = len(members.ends)
    return join([fill(opening, count), without_comma, fill(closing, count)])


def _quoted(column: pa.Array) -> RowBytes:
    """Text that needs no escapes, in quotes."""
    quote = fill(b'"', len(column))
    return join([quote, from_column(binary_column(column)), quote])


def _quote_moments(micros: Offsets, ending: bytes) -> RowBytes:
    """Moments as "2026-11-15T09:30:00.000000": the date by Arrow, the rest by arithmetic."""
    days, rest = np.divmod(micros, 86_400_000_000)
    dates = from_column(binary_column(pa.array(days.astype(np.int32), type=pa.date32()).cast(pa.string())))
    count = len(micros)
    return join([fill(b'"', count), dates, _times_of_day(rest), fill(ending, count)])


@compiled
def _times_of_day(micros: Offsets) -> RowBytes:
    width = 16
    starts = np.arange(micros.size) * width
    data = np.empty(micros.size * width, dtype=np.uint8)
    for row in range(micros.size):
        seconds, fraction = micros[row] // 1_000_000, micros[row] % 1_000_000
        position = row * width
        _write_digits(data, position + 1, seconds // 3600, 2)
        _write_digits(data, position + 4, seconds // 60 % 60, 2)
        _write_digits(data, position + 7, seconds % 60, 2)
        _write_digits(data, position + 10, fraction, 6)
        data[position] = 0x54  # T
        data[position + 3] = 0x3A  # :
        data[position + 6] = 0x3A
        data[position + 9] = 0x2E  # .
    return RowBytes(starts, starts + width, data)


@compiled
def _write_digits(out: Bytes, position: int, number: int, digits: int) -> None:
    for digit in range(digits - 1, -1, -1):
        out[position + digit] = 0x30 + number % 10
        number //= 10


@compiled
def _escaped_size(byte: int) -> int:
    if byte == _QUOTE or byte == _BACKSLASH:  # noqa: PLR1714, SIM109 - a set would be built for every byte
        return 2
    if byte < 0x20:
        return 2 if _SHORT[byte] else 6
    return 1


@compiled
def _quote_text(column: BinaryColumn) -> RowBytes:
    count = column.is_null.size
    ends = np.empty(count, dtype=np.int64)
    total = 0
    for row in range(count):
        total += 2
        for index in range(column.offsets[row], column.offsets[row + 1]):
            total += _escaped_size(column.data[index])
        ends[row] = total
    data = np.empty(total, dtype=np.uint8)
    starts = np.empty(count, dtype=np.int64)
    position = 0
    for row in range(count):
        starts[row] = position
        data[position] = _QUOTE
        position += 1
        for index in range(column.offsets[row], column.offsets[row + 1]):
            position = _write_escaped(data, position, column.data[index])
        data[position] = _QUOTE
        position += 1
    return RowBytes(starts, ends, data)


@compiled
def _write_escaped(out: Bytes, position: int, byte: int) -> int:
    size = _escaped_size(byte)
    if size == 1:
        out[position] = byte
        return position + 1
    out[position] = _BACKSLASH
    if size == 2:
        out[position + 1] = _SHORT[byte] if byte < 0x20 else byte
        return position + 2
    out[position + 1] = 0x75  # u
    out[position + 2] = 0x30
    out[position + 3] = 0x30
    out[position + 4] = _HEX[byte >> 4]
    out[position + 5] = _HEX[byte & 0x0F]
    return position + 6


@compiled
def _quote_base64(column: BinaryColumn) -> RowBytes:
    count = column.is_null.size
    sizes = (column.offsets[1:] - column.offsets[:-1] + 2) // 3 * 4 + 2
    ends = np.cumsum(sizes)
    starts = ends - sizes
    data = np.empty(ends[-1] if count else 0, dtype=np.uint8)
    for row in range(count):
        position = starts[row]
        data[position] = _QUOTE
        position += 1
        index, end = column.offsets[row], column.offsets[row + 1]
        while index < end:
            word = np.int64(column.data[index]) << 16
            if index + 1 < end:
                word |= np.int64(column.data[index + 1]) << 8
            if index + 2 < end:
                word |= np.int64(column.data[index + 2])
            for digit in range(4):
                is_there = index + digit <= end
                data[position + digit] = _BASE64[word >> (18 - 6 * digit) & 0x3F] if is_there else 0x3D  # =
            position += 4
            index += 3
        data[position] = _QUOTE
    return RowBytes(starts, ends, data)
