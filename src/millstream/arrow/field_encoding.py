"""Keys and values in a format of a write: columns to bytes.

    binary   strings and binaries as they are
    string   numbers, booleans, dates and strings as text
    json     one JSON text for each row, as `to_json` of Spark writes it
    avro     Confluent's wire format: a zero byte, the id of the schema, the Avro message (see `avro.encoding`)

A null stays null: a tombstone, or a record without a key.
"""

from typing import NamedTuple, Protocol

import pyarrow as pa

from millstream.arrow.binary_columns import BinaryColumn, binary_column, is_binary, is_text, null_column
from millstream.arrow.columns import FieldColumns
from millstream.errors import UsageError
from millstream.registry.addresses import Addresses


class ColumnMismatch(UsageError):
    """A column of a type that its format cannot write."""


class Registration(NamedTuple):
    """Where the Avro schema of a field is registered. `column_type` is what it is derived from, if none is given and there is no latest one
    or that is not to be used."""

    registry: Addresses
    column_type: pa.DataType
    registers: bool = True
    uses_latest: bool = True


class FieldEncoder(Protocol):
    """Makes the keys or the values of one topic."""

    def encode(self, batch: pa.RecordBatch) -> BinaryColumn:
        """The key or value of each row."""


def field_encoder(field: FieldColumns, *, name: str, topic: str, registration: Registration | None = None) -> FieldEncoder:
    """The encoder of a topic's keys or values; for Avro it asks the schema registry."""
    if not field.columns:
        return NoField()
    if field.format == "binary":
        return PlainField(field.columns[0])
    if field.format == "string":
        return TextField(field.columns[0], name)
    if field.format == "json":
        from millstream.arrow.json_encoding import JsonField  # only who writes JSON needs it

        return JsonField(field)
    from millstream.arrow.avro.field import avro_field  # only who writes Avro needs it

    assert registration is not None, "the options were checked"
    return avro_field(field, name=name, topic=topic, registration=registration)


def column_of(field: FieldColumns, batch: pa.RecordBatch) -> pa.Array:
    """The column that keys or values are made of; several as a struct."""
    columns = [batch.column(position) for position in field.columns]
    if not field.is_record:
        return columns[0]
    return pa.StructArray.from_arrays(columns, names=[batch.schema.names[position] for position in field.columns])


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
        is_bytes = is_text(kind) or is_binary(kind)
        if not (is_bytes or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)):
            raise ColumnMismatch(
                f"{self._name}.format string does not take {kind}: cast the column to a string in Spark, as you want it written"
            )
        return binary_column(column if is_bytes else column.cast(pa.string()))
