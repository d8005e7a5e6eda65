"""What the rows of a query look like and how their keys and values are read: decided once, when the query is made, and sent to every task.

    key  value  topic  partition  offset  timestamp  timestampType  [headers]  [corrupt_key]  [corrupt_value]

are the columns of Spark's own connector, in its order. Keys and values are `binary` unless a format gives them another type; with `mode` =
PERMISSIVE each that has a format also has a column with the bytes that could not be read. Columns that the query does not want, by the
option `columns` or by a schema of its own, are not built: Spark does not say to a Python source which columns are used.

The Avro schema that a query reads with is the latest of its subject when the query is made, or the one that its options give. It stays the
same for the whole query, whatever is registered later: messages of other schemas are brought to it.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from millstream.arrow.columns import CORRUPT_COLUMNS, Field, Mode
from millstream.registry.addresses import Addresses
from millstream.spark.options import FieldOptions, OptionError
from millstream.spark.source.read_options import COLUMNS, ReadOptions

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_COLUMNS: Final = (*COLUMNS, *CORRUPT_COLUMNS)
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
class ReadField:
    """How keys or values are read. `avro` is the schema that all messages are brought to: its text, after the texts of the schemas that it
    refers to."""

    options: FieldOptions
    avro: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How rows are made; small, and the same for every task."""

    key: ReadField
    value: ReadField
    mode: Mode
    registry: Addresses | None

    def field(self, name: Field) -> ReadField:
        """The plan for keys or for values."""
        return self.key if name == "key" else self.value


def plan_read(options: ReadOptions) -> ReadPlan:
    """The plan of a read with these options."""
    return ReadPlan(_plan_field("key", options), _plan_field("value", options), options.mode, options.registry)


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


def field_type(plan: ReadField) -> DataType | str:
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


def _plan_field(name: Field, options: ReadOptions) -> ReadField:
    field: FieldOptions = getattr(options, name)
    if field.format != "avro":
        return ReadField(field)
    from millstream.arrow.avro.column_types import BadSchema, arrow_type, parse_avro  # only who reads Avro needs it

    schemas = (field.schema,) if field.schema is not None else _find_schemas(name, field, options)
    try:
        arrow_type(parse_avro(schemas))
    except BadSchema as error:
        where = f"{name}.schema" if field.schema is not None else f"{name}.subject"
        raise OptionError(where, f"the schema cannot be read with: {error}") from None
    return ReadField(field, schemas)


def _find_schemas(name: Field, field: FieldOptions, options: ReadOptions) -> tuple[str, ...]:
    subject = field.subject
    if subject is None:
        topics = options.selection.names()
        if topics is None or len(topics) != 1:
            raise OptionError(
                f"{name}.subject", f"{name}.format = avro on more than one topic needs it: the subject whose schema gives the columns"
            )
        subject = f"{topics[0]}-{name}"
    assert options.registry is not None, "the options were checked"
    from millstream.arrow.avro.column_types import BadSchema  # only who reads Avro needs it
    from millstream.arrow.avro.subject_schema import latest_schemas
    from millstream.registry.errors import RegistryError

    try:
        return latest_schemas(options.registry, subject)
    except BadSchema as error:
        raise OptionError(f"{name}.format", str(error)) from None
    except RegistryError as error:
        raise OptionError(f"{name}.subject, schema.registry.url", f"the schema of the subject {subject!r} was not found: {error}") from None
