"""Which Arrow type an Avro type becomes. The table of docs/spark.md, as code.

    null                      null                       record               struct
    boolean                   bool                       array                list
    int, long                 int32, int64               map                  map<string, ...>
    float, double             float, double              enum                 string
    bytes, fixed              binary                     union with null      the other type; every column may be null
    string                    string                     [int, long]          int64
    date                      date32                     [float, double]      double
    timestamp-millis ...      timestamp[us, UTC]         any other union      struct<member0, member1, ...>, one of them not null
    local-timestamp-...       timestamp[us]
    decimal up to 38 digits   decimal128; with more digits it stays binary

For Spark these are the types of its own `from_avro`. A recursive type cannot become columns.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from millstream.avro.parser import SchemaError, parse_schema
from millstream.avro.schema import PRIMITIVES, Array, Decimal, Map, Primitive, Record, Schema, Union, decimal_of, logical_type
from millstream.errors import MillstreamError

MAX_DECIMAL_DIGITS: Final = 38
MAX_COLUMNS: Final = 100_000
"""A few lines of schema, of records that each hold the next one twice, would be more columns than there is memory for."""
_MERGED: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_MOMENT, _LOCAL_MOMENT = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_SIMPLE: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "date": pa.date32(),
    "timestamp-millis": _MOMENT,
    "timestamp-micros": _MOMENT,
    "timestamp-nanos": _MOMENT,
    "local-timestamp-millis": _LOCAL_MOMENT,
    "local-timestamp-micros": _LOCAL_MOMENT,
    "local-timestamp-nanos": _LOCAL_MOMENT,
}
"""By Avro's word for the type, or for the logical type. Times of day and UUIDs are what they are written as."""


class BadSchema(MillstreamError):
    """A text that is not an Avro schema, or one that cannot become columns; the message says why."""


def parse_avro(schemas: Sequence[str]) -> Schema:
    """The type that the last schema describes; the schemas before it are those it refers to, each after those it needs itself."""
    # The bare name of a primitive type is how some tools write such a schema.
    *references, text = (f'"{text.strip()}"' if text.strip() in PRIMITIVES else text for text in schemas)
    try:
        return parse_schema(text, references=references).root
    except SchemaError as error:
        raise BadSchema(f"it is not an Avro schema: {error}") from None


def arrow_type(schema: Schema) -> pa.DataType:
    """The type of the column that messages of a schema become."""
    try:
        return _type_of(schema, inside=(), places=iter(range(MAX_COLUMNS)))
    except RecursionError:
        raise BadSchema("it is nested too deeply") from None


def column_kind(schema: Schema) -> str:
    """Avro's word for the type, or for its logical type where that gives the column another type."""
    logical = logical_type(schema)
    return logical if logical in _SIMPLE else schema.kind


def column_decimal(schema: Schema) -> Decimal | None:
    """The digits of a type that becomes a decimal."""
    decimal = decimal_of(schema)
    return decimal if decimal is not None and decimal.precision <= MAX_DECIMAL_DIGITS else None


def column_branches(union: Union) -> Sequence[Schema]:
    """The types of which a column of this union has one: the branches without null, with int and long as one, and float and double."""
    branches = [branch for branch in union.branches if branch.kind != "null"]
    kinds = frozenset(map(column_kind, branches))
    return [Primitive(_MERGED[kinds])] if kinds in _MERGED else branches


def _type_of(schema: Schema, *, inside: tuple[Record, ...], places: Iterator[int]) -> pa.DataType:
    if next(places, None) is None:
        raise BadSchema(f"it has more than {MAX_COLUMNS} columns, counting those inside of others")
    if isinstance(schema, Record):
        if schema in inside:
            raise BadSchema(f"the record {schema.fullname} contains itself, and Spark has no recursive types")
        return pa.struct([(field.name, _type_of(field.schema, inside=(*inside, schema), places=places)) for field in schema.fields])
    if isinstance(schema, Array):
        return pa.list_(_type_of(schema.items, inside=inside, places=places))
    if isinstance(schema, Map):
        return pa.map_(pa.string(), _type_of(schema.values, inside=inside, places=places))
    if isinstance(schema, Union):
        branches = column_branches(schema)
        if len(branches) == 1:
            return _type_of(branches[0], inside=inside, places=places)
        members = [(f"member{number}", _type_of(branch, inside=inside, places=places)) for number, branch in enumerate(branches)]
        return pa.struct(members) if members else pa.null()
    decimal = column_decimal(schema)
    return _SIMPLE[column_kind(schema)] if decimal is None else pa.decimal128(*decimal)
