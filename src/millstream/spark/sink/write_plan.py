"""What a write was asked for, checked: its options and its columns, by the rules of Spark's own sink.

    key?  value  headers?  topic?  partition?

`topic` comes before a column of topics. With `value.format` = json or avro and no column `value`, all columns but those named above make
the value. Other columns are left out, as Spark's own sink leaves them out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructField, StructType

from millstream.arrow.columns import Field, FieldColumns
from millstream.audited.settings import AuditSettings
from millstream.client.raw_producer import ProducerSettings
from millstream.errors import UsageError
from millstream.registry.addresses import Addresses
from millstream.spark.options import WRITE, OptionError, Options
from millstream.spark.sink.producer_options import Compression, parse_compression, parse_producer_settings

_SPECIAL: Final = ("key", "value", "headers", "topic", "partition")
_HEADER_FIELDS: Final = [("key", StringType()), ("value", BinaryType())]


class SchemaError(UsageError):
    """The columns of a write are not those that a topic can take."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Everything a write was asked for, checked against the schema of its rows; columns are positions in it."""

    producer: ProducerSettings
    compression: Compression
    ignores_keys: bool
    schema: StructType
    topic: str | None
    key: FieldColumns
    value: FieldColumns
    topic_column: int | None
    partition_column: int | None
    headers_column: int | None
    registry: Addresses | None
    registers_schemas: bool
    uses_latest_version: bool
    skips_replayed_batches: bool
    audit: AuditSettings | None


def plan_write(given: Mapping[str, str], schema: StructType) -> WritePlan:
    """The plan of a write, or an error that says which option or column is wrong."""
    options = Options(given, WRITE)
    producer = parse_producer_settings(options)
    columns = _find_columns(schema)
    topic = _topic(options, columns, schema)
    _check_type(schema, columns.get("partition"), (IntegerType,), "int")
    headers = columns.get("headers") if options.flag("includeHeaders", default=True) else None
    _check_headers(schema, headers)
    return WritePlan(
        producer=producer,
        compression=parse_compression(options),
        ignores_keys=options.flag("kafka.partitioner.ignore.keys", default=False),
        schema=schema,
        topic=topic,
        key=_plan_field("key", options, columns, schema),
        value=_plan_field("value", options, columns, schema),
        topic_column=None if topic is not None else columns["topic"],
        partition_column=columns.get("partition"),
        headers_column=headers,
        registry=options.registry(),
        registers_schemas=options.flag("auto.register.schemas", default=True),
        uses_latest_version=options.flag("use.latest.version", default=True),
        skips_replayed_batches=options.flag("skipReplayedBatches", default=True),
        audit=options.audit(),
    )


def _find_columns(schema: StructType) -> dict[str, int]:
    """Positions of the columns that mean something to a sink."""
    found: dict[str, int] = {}
    for position, name in enumerate(schema.fieldNames()):
        lower = name.lower()
        if lower in found:
            raise SchemaError(f"there are two columns {name!r}: rename or drop one")
        if lower in _SPECIAL:
            found[lower] = position
    return found


def _topic(options: Options, columns: Mapping[str, int], schema: StructType) -> str | None:
    topic = options.get("topic")
    if topic is not None:
        if not topic.strip():
            raise OptionError("topic", "it is empty: give the name of a topic")
        return topic
    if "topic" not in columns:
        raise OptionError("topic", "it is required, because the rows have no column `topic`")
    _check_type(schema, columns["topic"], (StringType,), "string")
    return None


def _plan_field(name: Field, options: Options, columns: Mapping[str, int], schema: StructType) -> FieldColumns:
    field = options.field(name)
    position = columns.get(name)
    if field.format in {"json", "avro"}:
        return FieldColumns(field.format, *_sources(name, position, columns, schema), field.schema, field.subject)
    if position is None:
        if name == "value":
            raise SchemaError(
                "the rows have no column `value`: name one so, or set value.format to json or avro to write all columns as one value"
            )
        return FieldColumns("binary", (), is_record=False)
    if field.format == "binary":
        _check_type(schema, position, (StringType, BinaryType), "string or binary", hint=f", or set {name}.format to string, json or avro")
    return FieldColumns(field.format, (position,), is_record=False)


def _sources(name: Field, position: int | None, columns: Mapping[str, int], schema: StructType) -> tuple[tuple[int, ...], bool]:
    """The columns of a json or Avro key or value, and whether they make a record."""
    if position is not None:
        return (position,), False
    if name == "key":
        return (), False
    rest = tuple(place for place in range(len(schema)) if place not in columns.values())
    if not rest:
        raise SchemaError("there is no column left that could make the value: the rows have neither a column `value` nor others")
    return rest, True


def _check_type(schema: StructType, position: int | None, kinds: tuple[type[DataType], ...], expected: str, *, hint: str = "") -> None:
    if position is not None and not isinstance(schema[position].dataType, kinds):
        field: StructField = schema[position]
        raise SchemaError(f"the column `{field.name}` is of type {field.dataType.simpleString()}: it has to be {expected}{hint}")


def _check_headers(schema: StructType, position: int | None) -> None:
    if position is None:
        return
    found = schema[position].dataType
    if isinstance(found, ArrayType) and isinstance(found.elementType, StructType):
        names_and_types = [(field.name.lower(), field.dataType) for field in found.elementType.fields]
        if names_and_types == _HEADER_FIELDS:
            return
    raise SchemaError(
        f"the column `headers` is of type {found.simpleString()}: it has to be array<struct<key:string,value:binary>>, "
        "or set includeHeaders to false to leave it out"
    )
