"""Which Spark type an Avro type becomes. The table of docs/spark.md, as code.

    null                      void                       record               struct
    boolean                   boolean                    array                array
    int, long                 int, bigint                map                  map<string, ...>
    float, double             float, double              enum                 string
    bytes, fixed              binary                     union with null      the other type; every column may be null
    string                    string                     [int, long]          bigint
    date                      date                       [float, double]      double
    timestamp-millis ...      timestamp                  any other union      struct<member0, member1, ...>, one of them not null
    local-timestamp-...       timestamp_ntz
    decimal up to 38 digits   decimal; with more digits it stays binary

It is the mapping of Spark's own `from_avro`. A recursive type cannot become columns.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from millstream.spark.formats.avro_type import AvroType, BadSchema, parse_avro

MAX_DECIMAL_DIGITS: Final = 38
_MERGED: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_SIMPLE: Final[dict[str, DataType]] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "timestamp-nanos": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "local-timestamp-nanos": TimestampNTZType(),
}


def spark_type(schemas: Sequence[str]) -> DataType:
    """The type of the column that messages of the last schema become; those before it are what it refers to."""
    return _type_of(parse_avro(schemas), inside=())


def is_decimal(avro: AvroType) -> bool:
    """Whether the type becomes a decimal."""
    return avro.logical == "decimal" and avro.precision <= MAX_DECIMAL_DIGITS


def column_branches(union: AvroType) -> list[AvroType]:
    """The types of which a column of this union has one: the branches without null, with int and long as one, and float and double."""
    branches = [branch for branch in union.branches if branch.kind != "null"]
    kinds = frozenset(branch.logical or branch.kind for branch in branches)
    return [AvroType(_MERGED[kinds])] if kinds in _MERGED else branches


def _type_of(avro: AvroType, *, inside: tuple[AvroType, ...]) -> DataType:
    match avro.kind:
        case "record":
            if avro in inside:
                raise BadSchema(f"the record {avro.name} contains itself, and Spark has no recursive types")
            return StructType([StructField(each.name, _type_of(each.type, inside=(*inside, avro))) for each in avro.fields])
        case "array":
            return ArrayType(_type_of(avro.inner, inside=inside))
        case "map":
            return MapType(StringType(), _type_of(avro.inner, inside=inside))
        case "union":
            branches = column_branches(avro)
            if len(branches) == 1:
                return _type_of(branches[0], inside=inside)
            if not branches:
                return NullType()
            return StructType([StructField(f"member{number}", _type_of(each, inside=inside)) for number, each in enumerate(branches)])
        case _:
            if is_decimal(avro):
                return DecimalType(avro.precision, avro.scale)
            return _SIMPLE.get(avro.logical or "") or _SIMPLE[avro.kind]
