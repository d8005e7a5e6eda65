"""The options of a write, and the columns it takes: `key? value headers? topic? partition?`, with the types and rules of Spark's own sink.

`topic` comes before a column of topics. With `value.format` = json or avro and no column `value`, all columns but those named above make
the value. Other columns are left out, as Spark's own sink leaves them out. Options of a read are accepted without effect, because a table
of SQL has one list of options for both directions; what nobody knows is refused.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructField, StructType

from millstream.client.raw_producer import ProducerSettings
from millstream.errors import UsageError
from millstream.registry.addresses import Addresses
from millstream.spark.sink.producer_options import Compression, parse_compression, parse_flag, parse_producer_settings
from millstream.spark.source.options import KNOWN as READ_OPTIONS
from millstream.spark.source.options import SERVERS, Format, parse_servers, registry_addresses
from millstream.spark.source.positions import OptionError

SINK_OPTIONS: Final = (
    SERVERS,
    "topic",
    "includeHeaders",
    "key.format",
    "value.format",
    "key.schema",
    "value.schema",
    "key.subject",
    "value.subject",
    "schema.registry.url",
    "schema.registry.basic.auth.user.info",
    "auto.register.schemas",
    "use.latest.version",
    "skipReplayedBatches",
)
FORMATS: Final = ("binary", "string", "json", "avro")
_SPARKS_OWN: Final = {"path", "serialization.format", "checkpointlocation", "queryname", "outputmode"}
_SPECIAL: Final = ("key", "value", "headers", "topic", "partition")
_HEADER_FIELDS: Final = [("key", StringType()), ("value", BinaryType())]


class SchemaError(UsageError):
    """The columns of a write are not those that a topic can take."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """Where keys or values come from: one column, or several as a record; how they are written; and, for Avro, by which schema."""

    format: Format
    columns: tuple[int, ...]
    is_record: bool
    """Whether the columns make a record together; otherwise there is one of them, or none."""
    schema: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """Everything a write was asked for, checked against the schema of its rows; columns are positions in it."""

    producer: ProducerSettings
    compression: Compression
    ignores_keys: bool
    schema: StructType
    topic: str | None
    key: FieldPlan
    value: FieldPlan
    topic_column: int | None
    partition_column: int | None
    headers_column: int | None
    registry: Addresses | None
    registers_schemas: bool
    uses_latest_version: bool
    skips_replayed_batches: bool


def plan_sink(given: Mapping[str, str], schema: StructType) -> SinkPlan:
    """The plan of a write, or an error that says which option or column is wrong."""
    options = _own_spelling(given)
    kafka = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    servers = _bootstrap_servers(kafka)
    columns = _find_columns(schema)
    topic = _topic(options, columns, schema)
    _check_type(schema, columns.get("partition"), (IntegerType,), "int")
    headers = None if options.get("includeHeaders", "").lower() == "false" else columns.get("headers")
    _check_headers(schema, headers)
    return SinkPlan(
        producer=parse_producer_settings(servers, kafka),
        compression=parse_compression(kafka),
        ignores_keys=parse_flag(kafka, "partitioner.ignore.keys", default=False),
        schema=schema,
        topic=topic,
        key=_plan_field("key", options, columns, schema),
        value=_plan_field("value", options, columns, schema),
        topic_column=None if topic is not None else columns["topic"],
        partition_column=columns.get("partition"),
        headers_column=headers,
        registry=_registry(options),
        registers_schemas=_flag(options, "auto.register.schemas"),
        uses_latest_version=_flag(options, "use.latest.version"),
        skips_replayed_batches=_flag(options, "skipReplayedBatches"),
    )


def _own_spelling(given: Mapping[str, str]) -> dict[str, str]:
    spelling = {name.lower(): name for name in (*READ_OPTIONS, *SINK_OPTIONS)}
    options = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in _SPARKS_OWN:
            continue
        if lower not in spelling and not lower.startswith("kafka."):
            close = difflib.get_close_matches(lower, [option.lower() for option in SINK_OPTIONS], n=1)
            hint = (
                f"Did you mean {spelling[close[0]]}?" if close else f"A write has: {', '.join(SINK_OPTIONS)}, and kafka.* for Kafka's own."
            )
            raise OptionError(name, f"there is no such option. {hint}")
        options[spelling.get(lower, lower)] = value
    return options


def _bootstrap_servers(kafka: Mapping[str, str]) -> str:
    servers = parse_servers(kafka.get("bootstrap.servers", ""))
    if not servers:
        # Spark hands the options of a table in its catalog to Java sources only.
        hint = "" if kafka else " In SQL use CREATE TEMPORARY VIEW: CREATE TABLE does not pass its options on."
        raise OptionError(SERVERS, f"it is required: addresses of brokers, as in 127.0.0.1:9092, comma-separated.{hint}")
    return servers


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


def _topic(options: Mapping[str, str], columns: Mapping[str, int], schema: StructType) -> str | None:
    topic = options.get("topic")
    if topic is not None:
        if not topic.strip():
            raise OptionError("topic", "it is empty: give the name of a topic")
        return topic
    if "topic" not in columns:
        raise OptionError("topic", "it is required, because the rows have no column `topic`")
    _check_type(schema, columns["topic"], (StringType,), "string")
    return None


def _plan_field(field: str, options: Mapping[str, str], columns: Mapping[str, int], schema: StructType) -> FieldPlan:
    text = options.get(f"{field}.format", "binary").lower()
    if text not in FORMATS:
        raise OptionError(f"{field}.format", f"{text!r} is none of {', '.join(FORMATS)}")
    position = columns.get(field)
    if text == "avro":
        return FieldPlan(
            "avro", *_sources(field, position, columns, schema), options.get(f"{field}.schema"), options.get(f"{field}.subject")
        )
    if text == "json":
        return FieldPlan("json", *_sources(field, position, columns, schema))
    if position is None:
        if field == "value":
            raise SchemaError(
                "the rows have no column `value`: name one so, or set value.format to json or avro to write all columns as one value"
            )
        return FieldPlan("binary", (), is_record=False)
    if text == "binary":
        _check_type(schema, position, (StringType, BinaryType), "string or binary", hint=f", or set {field}.format to string, json or avro")
    return FieldPlan("string" if text == "string" else "binary", (position,), is_record=False)


def _sources(field: str, position: int | None, columns: Mapping[str, int], schema: StructType) -> tuple[tuple[int, ...], bool]:
    """The columns of a json or Avro key or value, and whether they make a record."""
    if position is not None:
        return (position,), False
    if field == "key":
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


def _registry(options: Mapping[str, str]) -> Addresses | None:
    found = registry_addresses(options)
    if found is None and "avro" in {options.get("key.format", "").lower(), options.get("value.format", "").lower()}:
        raise OptionError("schema.registry.url", "the format avro needs it: where the schema registry is, as in http://127.0.0.1:8081")
    return found


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "true").strip().lower()
    if text not in {"true", "false"}:
        raise OptionError(name, f"{options[name]!r} is neither true nor false")
    return text == "true"
