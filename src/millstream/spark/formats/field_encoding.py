"""Keys and values as bytes: `key.format` and `value.format` of a write.

    binary   strings and binaries as they are
    string   numbers, booleans, dates and strings as text
    json     one JSON text for each row, as `to_json` of Spark writes it
    avro     Confluent's wire format: a zero byte, the id of the schema, the Avro message (see `avro_encoding`)

A null stays null: a tombstone, or a record without a key.
"""

from typing import Protocol

import pyarrow as pa

from millstream.spark.formats.binary_columns import BinaryColumn, binary_column, null_column
from millstream.spark.sink.write_plan import SchemaError, WriteField, WritePlan


class FieldEncoder(Protocol):
    """Makes the keys or the values of one topic."""

    def encode(self, batch: pa.RecordBatch) -> BinaryColumn:
        """The key or value of each row."""
        ...


def field_encoder(plan: WritePlan, field: WriteField, *, name: str, topic: str) -> FieldEncoder:
    """The encoder of a topic's keys or values; it may ask the schema registry."""
    if not field.columns:
        return NoField()
    if field.format == "binary":
        return PlainField(field.columns[0])
    if field.format == "string":
        return TextField(field.columns[0], name)
    if field.format == "json":
        from millstream.spark.formats.json_encoding import JsonField

        return JsonField(field)
    from millstream.spark.formats.avro_field import avro_field

    return avro_field(plan, field, name=name, topic=topic)


class NoField:
    """There is no such column: all keys are null."""

    def encode(self, batch: pa.RecordBatch) -> BinaryColumn:
        return null_column(batch.num_rows)


class PlainField:
    """A column of strings or binaries."""

    def __init__(self, column: int) -> None:
        self._column = column

    def encode(self, batch: pa.RecordBatch) -> BinaryColumn:
        return binary_column(batch.column(self._column))


class TextField:
    """A column whose text has one form only, so that Arrow's is Spark's."""

    def __init__(self, column: int, name: str) -> None:
        self._column = column
        self._name = name

    def encode(self, batch: pa.RecordBatch) -> BinaryColumn:
        column = batch.column(self._column)
        kind = column.type
        if not (_is_bytes(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)):
            raise SchemaError(
                f"{self._name}.format string does not take {kind}: cast the column to a string in Spark, as you want it written"
            )
        return binary_column(column if _is_bytes(kind) else column.cast(pa.string()))


def _is_bytes(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary))
