"""What the rows of a query look like and how their keys and values are read: decided once, when the query is made, and sent to every task.

    key  value  topic  partition  offset  timestamp  timestampType  [headers]  [corrupt_key]  [corrupt_value]

are the columns of Spark's own connector, in its order. Keys and values are `binary` unless a format gives them another type; with `mode` =
PERMISSIVE each that has a format also has a column with the bytes that could not be read. Columns that the query does not want, by the
option `columns` or by a schema of its own, are not built: Spark tells a Python source nothing about which columns are used.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from millstream.arrow.columns import CORRUPT_COLUMNS, Field, Mode
from millstream.registry.addresses import Addresses
from millstream.spark.source.options import FieldOptions, ReadOptions
from millstream.spark.source.positions import OptionError

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", *CORRUPT_COLUMNS)
_PLAIN: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
    "corrupt_key": BinaryType(),
    "corrupt_value": BinaryType(),
}


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How keys or values are read. `avro` is the schema that all messages are brought to, pinned when the query was made: its text, after
    the texts of the schemas that it refers to."""

    options: FieldOptions
    avro: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How rows are made; small, and the same for every task."""

    key: FieldPlan
    value: FieldPlan
    mode: Mode
    registry: Addresses | None

    def field(self, name: Field) -> FieldPlan:
        """The plan for keys or for values."""
        return self.key if name == "key" else self.value


def column_names(options: ReadOptions) -> tuple[str, ...]:
    """The columns of the query, unless it brings a schema of its own."""
    wanted = options.columns or tuple(name for name in _COLUMNS if name != "headers" or options.include_headers)
    corrupt = [
        column
        for column, field in CORRUPT_COLUMNS.items()
        if options.mode == "PERMISSIVE" and field in wanted and getattr(options, field).format != "binary"
    ]
    return (*(name for name in wanted if name not in CORRUPT_COLUMNS), *corrupt)


def make_schema(options: ReadOptions, plan: ReadPlan) -> StructType | str:
    """The schema of the query. As text where a part of it was given as text: only Spark can parse that."""
    types = {name: _column_type(name, plan) for name in column_names(options)}
    if all(isinstance(kind, DataType) for kind in types.values()):
        return StructType([StructField(name, kind) for name, kind in types.items() if isinstance(kind, DataType)])
    return ", ".join(f"{name} {kind if isinstance(kind, str) else kind.simpleString()}" for name, kind in types.items())


def field_type(plan: FieldPlan) -> DataType | str:
    """The type of keys or values: Spark's, or its text."""
    match plan.options.format:
        case "binary":
            return BinaryType()
        case "string":
            return StringType()
        case "json":
            return f"STRUCT<{plan.options.schema}>"
        case "avro":
            from pyspark.sql.pandas.types import from_arrow_type  # only who reads Avro needs Arrow here

            from millstream.arrow.avro.column_types import arrow_type, parse_avro

            return from_arrow_type(arrow_type(parse_avro(plan.avro)))


def check_schema(schema: StructType, plan: ReadPlan) -> None:
    """Complain about a schema that the query brought itself and that its topics cannot have."""
    for field in schema.fields:
        if field.name not in _COLUMNS:
            raise OptionError("schema", f"there is no column {field.name!r}: choose from {', '.join(_COLUMNS)}")
        if field.name in CORRUPT_COLUMNS and (plan.mode != "PERMISSIVE" or CORRUPT_COLUMNS[field.name] not in schema.names):
            raise OptionError("schema", f"the column {field.name} goes with {CORRUPT_COLUMNS[field.name]} and mode = PERMISSIVE")
        expected = _column_type(field.name, plan)
        if not isinstance(expected, str) and field.dataType.simpleString() != expected.simpleString():
            raise OptionError("schema", f"the column {field.name} is {expected.simpleString()}, not {field.dataType.simpleString()}")
        if isinstance(expected, str) and not isinstance(field.dataType, StructType):
            raise OptionError("schema", f"the column {field.name} is read as JSON objects, not as {field.dataType.simpleString()}")


def _column_type(name: str, plan: ReadPlan) -> DataType | str:
    return field_type(plan.key if name == "key" else plan.value) if name in {"key", "value"} else _PLAIN[name]
