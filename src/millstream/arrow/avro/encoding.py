"""Columns of Arrow as Avro messages, by any schema that columns can fit: a column at a time, without an object per row.

    null, boolean, int, long, float, double, bytes, string, fixed, enum      columns of that type, or of one that Avro promotes to it
    decimal, date, time-*, timestamp-*, local-timestamp-*, uuid              columns of Arrow's type for it; uuid is a string
    array, map, record                                                       lists, maps with strings for keys, structs
    union                                                                    null, and the first other branch that fits the column

A record takes the columns of its fields' names. A field that no column has is written as its default, or as null where it may be null; a
column that no field takes is an error, because dropping it silently would lose data. An error says the place of what does not fit.

Rows may be absent, because a struct or list around them is null: whatever stands there is not looked at, and no bytes are written.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrow.avro.column_types import column_decimal
from millstream.arrow.binary_columns import binary_column, entries_of_maps, is_binary, is_text, list_offsets, null_flags
from millstream.arrow.kernels.compiled import Bytes, Flags, Ints
from millstream.arrow.row_bytes import RowBytes, big_endian_decimals, fill, from_column, group, join, only, zigzag_varints
from millstream.avro.defaults import encode_default
from millstream.avro.schema import NO_DEFAULT, Array, Decimal, Enum, Field, Fixed, Map, Primitive, Record, Schema, Union, logical_type
from millstream.errors import UsageError
from millstream.wire.primitives import zigzag_varint

_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_MOST: Final = 2**63 - 1
_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}
_END_OF_BLOCKS: Final = b"\x00"
_KEYS: Final = Primitive("string")


class AvroMismatch(UsageError):
    """A column, or a value in it, that its Avro schema cannot take."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")


def encode_avro(schema: Schema, column: pa.Array, *, place: str) -> RowBytes:
    """The Avro message of each row that is not null; the others are empty."""
    return _encode(schema, column, null_flags(column), place)


def encode_message(schema: Schema, column: pa.Array, *, place: str) -> RowBytes:
    """The same as all of Confluent's clients write it: where the whole message is of type bytes, they stand there without their length."""
    if schema.kind != "bytes":
        return encode_avro(schema, column, place=place)
    return only(_content(schema, column, place), ~null_flags(column))


def _encode(schema: Schema, column: pa.Array, absent: Flags, place: str) -> RowBytes:
    if isinstance(schema, Union):
        return _encode_union(schema.branches, column, absent, place)
    is_null = null_flags(column)
    if schema.kind == "null":
        _expect(bool((is_null | absent).all()), column, "null", place)
        return fill(b"", len(column))
    if (is_null & ~absent).any():
        raise AvroMismatch(place, "there is a null, and the schema does not allow one")
    missing = is_null | absent
    encoded = _encode_present(schema, column, missing, place)
    return only(encoded, ~missing) if missing.any() else encoded


def _encode_present(schema: Schema, column: pa.Array, missing: Flags, place: str) -> RowBytes:
    """A column whose rows are `missing` or have a value; what comes out for missing ones is thrown away."""
    if isinstance(schema, Record):
        return _encode_record(schema, column, missing, place)
    if isinstance(schema, Array | Map):
        return _encode_items(schema, column, place)
    if isinstance(schema, Enum):
        return _encode_enum(schema, column, missing, place)
    if isinstance(schema, Fixed):
        decimal = column_decimal(schema)
        if decimal is not None:
            return _encode_decimals(decimal, column, place, size=schema.size)
        return _encode_fixed(schema, column, missing, place)
    return _encode_primitive(schema, column, place)


def _encode_primitive(schema: Schema, column: pa.Array, place: str) -> RowBytes:
    match schema.kind:
        case "boolean":
            _expect(pa.types.is_boolean(column.type), column, schema.kind, place)
            return _fixed_width(column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8), 1)
        case "int" | "long":
            return zigzag_varints(_integers(schema, column, place))
        case "float" | "double":
            return _encode_floats(schema.kind, column, place)
        case _:
            content = _content(schema, column, place)
            return join([zigzag_varints(content.ends - content.starts), content])


def _encode_union(branches: Sequence[Schema], column: pa.Array, absent: Flags, place: str) -> RowBytes:
    is_null = null_flags(column)
    present = ~(is_null | absent)
    parts = []
    null_branch = _null_branch(branches)
    if null_branch is not None:
        parts.append(only(fill(null_branch, len(column)), is_null & ~absent))
    elif (is_null & ~absent).any():
        raise AvroMismatch(place, "there is a null, and the schema does not allow one")
    if present.any():
        index, encoded = _fitting_branch(branches, column, ~present, place)
        parts += (only(fill(zigzag_varint(index), len(column)), present), only(encoded, present))
    return join(parts) if parts else fill(b"", len(column))


def _null_branch(branches: Sequence[Schema]) -> bytes | None:
    """What is written for a null."""
    return next((zigzag_varint(index) for index, branch in enumerate(branches) if branch.kind == "null"), None)


def _fitting_branch(branches: Sequence[Schema], column: pa.Array, missing: Flags, place: str) -> tuple[int, RowBytes]:
    problems = []
    for index, branch in enumerate(branches):
        if branch.kind != "null":
            try:
                return index, _encode_present(branch, column, missing, place)
            except AvroMismatch as problem:
                problems.append(problem)
    if len(problems) == 1:
        raise problems[0]
    raise AvroMismatch(place, f"no branch of the union takes a column of type {column.type}")


def _encode_record(schema: Record, column: pa.Array, missing: Flags, place: str) -> RowBytes:
    _expect(pa.types.is_struct(column.type), column, "record", place)
    # `flatten` brings the nulls and the slice of the struct to its children.
    children = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
    unknown = sorted(children.keys() - {field.name for field in schema.fields})
    if unknown:
        names = ", ".join(field.name for field in schema.fields)
        raise AvroMismatch(place, f"the schema has no field {unknown[0]!r}, it has {names}: drop the column, or write by another schema")
    parts = []
    for field in schema.fields:
        inside = f"{place}.{field.name}"
        child = children.get(field.name)
        if child is None:
            parts.append(fill(_default(field, inside), len(column)))
        else:
            parts.append(_encode(field.schema, child, missing, inside))
    return join(parts) if parts else fill(b"", len(column))


def _default(field: Field, place: str) -> bytes:
    if field.default is not NO_DEFAULT:
        try:
            return encode_default(field.schema, field.default)
        except ValueError as error:
            raise AvroMismatch(place, f"there is no such column, and {error}") from None
    null = _null_branch(field.schema.branches) if isinstance(field.schema, Union) else None
    if null is None:
        raise AvroMismatch(place, "there is no such column, and the schema has no default for it")
    return null


def _encode_items(schema: Array | Map, column: pa.Array, place: str) -> RowBytes:
    """Lists and maps: the number of items and the items as one block, then the end; an empty one is the end alone."""
    if isinstance(schema, Map):
        _expect(pa.types.is_map(column.type), column, "map", place)
        column = entries_of_maps(column)
    else:
        _expect(pa.types.is_list(column.type) or pa.types.is_large_list(column.type), column, "array", place)
    offsets, items = list_offsets(column), column.flatten()
    lengths = np.diff(offsets)
    nothing_absent = np.zeros(len(items), dtype=np.bool_)
    if isinstance(schema, Map):
        keys, values = items.flatten()
        parts = [
            _encode(_KEYS, keys, nothing_absent, f"{place}.key"),
            _encode(schema.values, values, nothing_absent, f"{place}.value"),
        ]
    else:
        parts = [_encode(schema.items, items, nothing_absent, f"{place}[]")]
    blocks = group(join(parts), offsets)
    return join([only(zigzag_varints(lengths), lengths > 0), blocks, fill(_END_OF_BLOCKS, len(column))])


def _content(schema: Schema, column: pa.Array, place: str) -> RowBytes:
    """The bytes of a column for the types string and bytes, without their length."""
    decimal = column_decimal(schema)
    if decimal is not None:
        return _encode_decimals(decimal, column, place)
    # Binary columns may hold what is not UTF-8: they are no strings.
    _expect(is_text(column.type) or (schema.kind == "bytes" and is_binary(column.type)), column, schema.kind, place)
    return from_column(binary_column(column))


def _encode_fixed(schema: Fixed, column: pa.Array, missing: Flags, place: str) -> RowBytes:
    _expect(is_binary(column.type), column, "fixed", place)
    content = from_column(binary_column(column))
    wrong = (content.ends - content.starts != schema.size) & ~missing
    if wrong.any():
        row = int(np.argmax(wrong))
        raise AvroMismatch(place, f"there are {content.ends[row] - content.starts[row]} bytes where the schema wants {schema.size}")
    return content


def _encode_enum(schema: Enum, column: pa.Array, missing: Flags, place: str) -> RowBytes:
    _expect(is_text(column.type), column, "enum", place)
    positions = pc.index_in(column, value_set=pa.array(schema.symbols, type=column.type))
    unknown = null_flags(positions) & ~missing
    if unknown.any():
        raise AvroMismatch(place, f"{column[int(np.argmax(unknown))].as_py()!r} is none of the symbols {', '.join(schema.symbols)}")
    return zigzag_varints(positions.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))


def _encode_floats(kind: str, column: pa.Array, place: str) -> RowBytes:
    is_single = pa.types.is_float32(column.type) or pa.types.is_float16(column.type)
    fits = is_single or pa.types.is_integer(column.type) or (kind == "double" and pa.types.is_float64(column.type))
    _expect(fits, column, kind, place)
    dtype = np.dtype("<f4" if kind == "float" else "<f8")
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype)
    return _fixed_width(numbers.view(np.uint8), dtype.itemsize)


def _encode_decimals(decimal: Decimal, column: pa.Array, place: str, *, size: int | None = None) -> RowBytes:
    """Decimals of a number of bytes, or each as short as can be."""
    _expect(pa.types.is_decimal(column.type), column, "decimal", place)
    try:
        exact = column.cast(pa.decimal128(*decimal))
    except pa.ArrowInvalid as error:
        raise AvroMismatch(place, f"a number does not fit decimal({decimal.precision}, {decimal.scale}): {error}") from None
    words = np.frombuffer(exact.buffers()[1], dtype=np.uint8)[16 * exact.offset : 16 * (exact.offset + len(exact))]
    encoded = only(big_endian_decimals(words, len(exact), size or 0), ~null_flags(exact))  # under a null there may be anything
    if size is not None and len(exact) and (encoded.ends - encoded.starts).max() > size:
        raise AvroMismatch(place, f"a number needs more than the {size} bytes of the schema")
    return encoded


def _integers(schema: Schema, column: pa.Array, place: str) -> Ints:
    kind, column_type = schema.kind, column.type
    logical = logical_type(schema) or ""
    unit = _UNITS.get(logical.rpartition("-")[2])
    if logical == "date":
        _expect(pa.types.is_date32(column_type), column, "date", place)
        column = column.cast(pa.int32())
    elif unit is not None and (pa.types.is_timestamp(column_type) if "timestamp" in logical else pa.types.is_time(column_type)):
        return _times(column, unit, f"{place}, {logical}")
    else:
        # Times of day, too: Spark reads them as the numbers that they are.
        is_plain = unit is None or logical.startswith("time-")
        fits = is_plain and pa.types.is_integer(column_type) and (kind == "long" or column_type.bit_width <= 32)
        _expect(fits, column, logical if unit else kind, place)
    numbers: Ints = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _times(column: pa.Array, unit: str, place: str) -> Ints:
    """Times in the unit of their logical type; what is finer than that is cut off, towards the past."""
    whole = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64()).cast(pa.int64())
    numbers: Ints = whole.fill_null(0).to_numpy(zero_copy_only=False)
    have, want = _NANOS[column.type.unit], _NANOS[unit]
    if have <= want:
        return numbers // (want // have)
    factor = have // want
    if len(numbers) and (numbers.max() > _MOST // factor or numbers.min() < -(_MOST // factor)):
        raise AvroMismatch(place, f"a time does not fit 64 bits of {'nanoseconds, the years 1677 to 2262' if unit == 'ns' else unit}")
    return numbers * factor


def _fixed_width(content: Bytes, width: int) -> RowBytes:
    starts = np.arange(len(content) // width, dtype=np.int64) * width
    return RowBytes(starts, starts + width, content)


def _expect(fits: bool, column: pa.Array, wanted: str, place: str) -> None:
    if not fits:
        raise AvroMismatch(place, f"a column of type {column.type} cannot be written as {wanted}: cast it in Spark")
