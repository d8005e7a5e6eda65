"""The columns of a table: those of the value, where a message comes from, and what the table is partitioned by.

    the fields of a record, or `value`                                        typed by the format
    kafka_key  kafka_partition  kafka_offset  kafka_timestamp                 where each row comes from
    kafka_headers                                                             if asked for: name and value of each, in their order
    event_timestamp                                                           if the time of a field decides (`event_time`), that time
    event_date  event_hour                                                    by that time or the message's, UTC; in the paths of files

Whole numbers are kept as long and fractions as double, because no table format can widen them later without a rewrite. A message without a
time, or with one outside of the years 1970 to 9999, has nulls for it.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from millstream.lake.errors import BadColumns

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KAFKA_PARTITION: Final = "kafka_partition"
KAFKA_TIMESTAMP: Final = "kafka_timestamp"
EVENT_TIMESTAMP: Final = "event_timestamp"
EVENT_DATE: Final = "event_date"
EVENT_HOUR: Final = "event_hour"
PARTITION_BY: Final = (EVENT_DATE, EVENT_HOUR)
_PARTITION_FIELDS: Final = (pa.field(EVENT_DATE, pa.date32()), pa.field(EVENT_HOUR, pa.int32()))
_SAME: Final = (
    pa.types.is_boolean, pa.types.is_int64, pa.types.is_float64, pa.types.is_string, pa.types.is_binary, pa.types.is_date32,
    pa.types.is_decimal128, pa.types.is_timestamp,
)  # fmt: skip


def file_schema(
    value: pa.DataType, *, key: pa.DataType | None = None, with_headers: bool = False, with_event_time: bool = False
) -> pa.Schema:
    """The columns in the files of a table whose messages have values of this type."""
    fields = value_fields(value)
    ours = [
        pa.field("kafka_key", _checked(key or pa.binary(), "kafka_key")),
        pa.field(KAFKA_PARTITION, pa.int32()),
        pa.field("kafka_offset", pa.int64()),
        pa.field(KAFKA_TIMESTAMP, TIMESTAMP),
        *([pa.field("kafka_headers", HEADERS)] if with_headers else []),
        *([pa.field(EVENT_TIMESTAMP, TIMESTAMP)] if with_event_time else []),
    ]
    _check_names([field.name for field in fields], taken=[field.name for field in (*ours, *_PARTITION_FIELDS)])
    return pa.schema([*fields, *ours])


def result_schema(columns: pa.Schema, *, with_event_time: bool = False) -> pa.Schema:
    """The columns in the files of a table with the result of a query: as for messages, but for where they come from."""
    fields = [
        field if field.name == KAFKA_PARTITION else pa.field(field.name, _checked(widened(field.type), field.name)) for field in columns
    ]
    ours = [pa.field(EVENT_TIMESTAMP, TIMESTAMP)] if with_event_time else []
    _check_names([field.name for field in fields], taken=[field.name for field in (*ours, *_PARTITION_FIELDS)])
    return pa.schema([*fields, *ours])


def table_schema(files: pa.Schema) -> pa.Schema:
    """The columns of a table with such files."""
    return pa.schema([*files, *_PARTITION_FIELDS])


def value_fields(value: pa.DataType) -> list[pa.Field]:
    """The columns that a value becomes: one per field of a record, but for those that are always null."""
    if not pa.types.is_struct(value):
        return [pa.field("value", _checked(value, "value"))]
    return [pa.field(field.name, _checked(field.type, field.name)) for field in value if not pa.types.is_null(field.type)]


def widened(kind: pa.DataType) -> pa.DataType:
    """The type with every whole number as long and every fraction as double."""
    types = pa.types
    if types.is_signed_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, widened(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_type, widened(kind.item_type))
    if types.is_list(kind):
        return pa.list_(widened(kind.value_type))
    return kind


def flattened(values: pa.Array) -> list[pa.Array]:
    """The columns of `value_fields`; a value that is null has nulls in all of them."""
    if not pa.types.is_struct(values.type):
        return [values]
    columns = values.flatten() if values.null_count else [values.field(index) for index in range(values.type.num_fields)]
    return [column for column in columns if not pa.types.is_null(column.type)]


def _checked(kind: pa.DataType, place: str) -> pa.DataType:
    """The type, if a table can have it."""
    types = pa.types
    if types.is_struct(kind):
        if not kind.num_fields:
            raise BadColumns(f"the column {place} would be a record without fields, which tables do not have: give it one, or leave it out")
        _check_names([field.name for field in kind], taken=[], place=f"{place}.")
        for field in kind:
            _checked(field.type, f"{place}.{field.name}")
    elif types.is_map(kind):
        _checked(kind.item_type, place)
    elif types.is_list(kind):
        _checked(kind.value_type, place)
    elif not any(is_kind(kind) for is_kind in _SAME):
        raise BadColumns(f"the column {place} would be of type {kind}, which tables do not have: leave the field out, or give it another")
    return kind


def _check_names(names: Sequence[str], *, taken: Sequence[str], place: str = "") -> None:
    seen = {name.lower() for name in taken}
    for name in names:
        if name.lower() in seen:
            added = f", and a load adds {', '.join(taken)}" if taken else ""
            raise BadColumns(f"there would be two columns {place}{name}: names are compared without case{added}. Rename the field")
        seen.add(name.lower())
