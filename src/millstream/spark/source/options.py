"""The options of a read: those of Spark's own connector under their own names, and ours.

Names are found whatever their case, as everywhere in Spark. `kafka.` options are Kafka's own: those that say something about a read are
obeyed, those that tune the Java client are accepted and have no effect, and those that Spark's connector refuses are refused. Any other
name that is not in `KNOWN` is an error: a misspelt option that is silently ignored costs an afternoon.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from millstream.arrow.columns import Format, Mode
from millstream.errors import UsageError
from millstream.offset import EARLIEST, LATEST
from millstream.registry.addresses import Addresses, parse_addresses
from millstream.spark.source.positions import (
    AtEdge,
    AtOffsets,
    OptionError,
    Position,
    parse_offsets_option,
    parse_timestamp_option,
    parse_timestamps_option,
)
from millstream.spark.source.topic_selection import TopicSelection, parse_selection

SERVERS: Final = "kafka.bootstrap.servers"
KNOWN: Final = (
    SERVERS,
    "subscribe",
    "subscribePattern",
    "assign",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "group.id",
    "isolation.level",
    "columns",
    "key.format",
    "value.format",
    "key.schema",
    "value.schema",
    "key.subject",
    "value.subject",
    "mode",
    "schema.registry.url",
    "schema.registry.basic.auth.user.info",
)
_SPARKS_OWN: Final = {"path", "serialization.format"}
"""What Spark itself adds to the options of tables and paths."""
SINK_ONLY: Final = {"topic", "auto.register.schemas", "use.latest.version", "skipreplayedbatches"}
"""What only a write obeys: a table of SQL has one list of options for both directions."""
_REFUSED: Final = {
    "auto.offset.reset": "startingOffsets says where a new query begins",
    "enable.auto.commit": "group.id commits the progress of the query",
    "key.deserializer": "key.format says what a key is",
    "value.deserializer": "value.format says what a value is",
    "interceptor.classes": "there is no Java consumer here whose messages could be intercepted",
}
_TIME_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """How keys or values are read: `schema` is DDL for json and an Avro schema for avro, `subject` where the registry has one."""

    format: Format = "binary"
    schema: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Everything a read was asked for, checked."""

    bootstrap_servers: str
    selection: TopicSelection
    starting: Position | None
    """None means the default, which batch and stream have each their own."""
    ending: Position | None
    starting_latest_if_no_match: bool
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    include_headers: bool
    group_id: str | None
    client_id: str
    read_committed: bool
    check_crcs: bool
    fetch_bytes: int
    request_timeout_ms: int
    poll_timeout_ms: int
    columns: tuple[str, ...] | None
    key: FieldOptions
    value: FieldOptions
    mode: Mode
    registry: Addresses | None
    kafka: Mapping[str, str]
    """Kafka's own options without their prefix, for the connection (security)."""


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read, or an `OptionError` that says which one is wrong and what it may be."""
    options = _own_spelling(given)
    kafka = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    _refuse_consumer_options(kafka)
    maximum, minimum = _positive(options, "maxOffsetsPerTrigger"), _positive(options, "minOffsetsPerTrigger")
    if maximum is not None and minimum is not None and minimum > maximum:
        raise OptionError("minOffsetsPerTrigger", f"{minimum} is more than maxOffsetsPerTrigger, {maximum}")
    isolation = "isolation.level" if "isolation.level" in options else "kafka.isolation.level"
    include_headers = _flag(options, "includeHeaders", default=False)
    return ReadOptions(
        bootstrap_servers=_bootstrap_servers(options),
        selection=parse_selection(options),
        starting=_position(options, "starting"),
        ending=_position(options, "ending"),
        starting_latest_if_no_match=_word(options, "startingOffsetsByTimestampStrategy", ("error", "latest"), default="error") == "latest",
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=_duration_ms(options, "maxTriggerDelay", default="15m"),
        min_partitions=_positive(options, "minPartitions"),
        max_records_per_partition=_positive(options, "maxRecordsPerPartition"),
        include_headers=include_headers,
        group_id=_not_empty(options, "group.id"),
        client_id=kafka.get("client.id") or options.get("groupIdPrefix") or "spark-millstream-source",
        read_committed=_word(options, isolation, ("read_uncommitted", "read_committed"), default="read_uncommitted") == "read_committed",
        check_crcs=_flag(options, "kafka.check.crcs", default=True),
        fetch_bytes=_positive(options, "kafka.max.partition.fetch.bytes") or DEFAULT_FETCH_BYTES,
        request_timeout_ms=_positive(options, "kafka.request.timeout.ms") or 30_000,
        poll_timeout_ms=_positive(options, "kafkaConsumer.pollTimeoutMs") or 120_000,
        columns=_columns(options, include_headers=include_headers),
        key=_field(options, "key"),
        value=_field(options, "value"),
        mode=_mode(options),
        registry=registry_addresses(options),
        kafka=kafka,
    )


DEFAULT_FETCH_BYTES: Final = 4 * 1024 * 1024
"""More than Kafka's 1 MiB: with a request per megabyte the waiting for requests is felt."""


def check_batch_options(options: ReadOptions) -> None:
    """What a batch cannot do: begin at the end, end at the beginning, commit what it has read. Limits of micro-batches have no effect on
    it, as in Spark's own connector."""
    _refuse_edge("startingOffsets", options.starting, LATEST, "a batch cannot begin at the latest offset")
    _refuse_edge("endingOffsets", options.ending, EARLIEST, "a batch cannot end at the earliest offset")
    if options.group_id is not None:
        raise OptionError("group.id", "only a stream commits its progress; it is for spark.readStream")


def check_stream_options(options: ReadOptions) -> None:
    """What a stream cannot do: end."""
    if options.ending is not None:
        raise OptionError("endingOffsets, endingTimestamp, endingOffsetsByTimestamp", "a stream has no end; they are for spark.read")


def _refuse_edge(option: str, position: Position | None, edge: int, problem: str) -> None:
    if position == AtEdge(edge) or (isinstance(position, AtOffsets) and edge in position.offsets.values()):
        raise OptionError(option, f"{problem}: give {'earliest' if edge == LATEST else 'latest'}, offsets or a time")


def _own_spelling(given: Mapping[str, str]) -> dict[str, str]:
    spelling = {name.lower(): name for name in KNOWN}
    options = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in _SPARKS_OWN | SINK_ONLY:
            continue
        if lower not in spelling and not lower.startswith("kafka."):
            close = difflib.get_close_matches(lower, spelling, n=1)
            hint = f" Did you mean {spelling[close[0]]}?" if close else f" There are: {', '.join(KNOWN)}, and kafka.* for Kafka's own."
            raise OptionError(name, f"there is no such option.{hint}")
        options[spelling.get(lower, lower)] = value
    # What a table of SQL is written to is what it reads, unless it says otherwise.
    if "topic" in given and not options.keys() & {"subscribe", "subscribePattern", "assign"}:
        options["subscribe"] = given["topic"]
    return options


def _refuse_consumer_options(kafka: Mapping[str, str]) -> None:
    for name, instead in _REFUSED.items():
        if name in kafka:
            raise OptionError(f"kafka.{name}", f"it cannot be set: {instead}")


def _bootstrap_servers(options: Mapping[str, str]) -> str:
    servers = parse_servers(options.get(SERVERS, ""))
    if not servers:
        raise OptionError(SERVERS, "it is required: addresses of brokers, as in 127.0.0.1:9092, separated by commas")
    return servers


def parse_servers(text: str) -> str:
    """The addresses of brokers, checked, without spaces and empty ones."""
    servers = [server.strip() for server in text.split(",") if server.strip()]
    for server in servers:
        if not re.fullmatch(r"(?:[^:\s]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}", server):
            raise OptionError(SERVERS, f"{server!r} is not an address: give host:port, separated by commas")
    return ",".join(servers)


def _position(options: Mapping[str, str], edge: str) -> Position | None:
    """Spark's order of precedence: one time for all, times per partition, offsets."""
    if (text := options.get(f"{edge}Timestamp")) is not None:
        return parse_timestamp_option(f"{edge}Timestamp", text)
    if (text := options.get(f"{edge}OffsetsByTimestamp")) is not None:
        return parse_timestamps_option(f"{edge}OffsetsByTimestamp", text)
    if (text := options.get(f"{edge}Offsets")) is not None:
        return parse_offsets_option(f"{edge}Offsets", text)
    return None


def _columns(options: Mapping[str, str], *, include_headers: bool) -> tuple[str, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    allowed = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    wanted = {name.strip().lower() for name in text.split(",")} - {""}
    unknown = wanted - {name.lower() for name in allowed}
    if unknown or not wanted:
        raise OptionError("columns", f"{text!r} is not a list of columns: choose from {', '.join(allowed)}")
    if "headers" in wanted and not include_headers:
        raise OptionError("columns", "headers are read only with includeHeaders = true")
    return tuple(name for name in allowed if name.lower() in wanted)


def _field(options: Mapping[str, str], field: Literal["key", "value"]) -> FieldOptions:
    format_ = _word(options, f"{field}.format", ("binary", "string", "json", "avro"), default="binary")
    schema, subject = _not_empty(options, f"{field}.schema"), _not_empty(options, f"{field}.subject")
    if schema and format_ not in {"json", "avro"}:
        raise OptionError(f"{field}.schema", f"it goes with {field}.format = json (columns, as in 'id BIGINT, name STRING') or avro")
    if subject and (format_ != "avro" or schema):
        raise OptionError(f"{field}.subject", f"it goes with {field}.format = avro, where {field}.schema is not given")
    if format_ == "json" and not schema:
        raise OptionError(f"{field}.schema", f"{field}.format = json needs it: the columns, as in 'id BIGINT, name STRING'")
    if format_ == "avro" and "schema.registry.url" not in options:
        raise OptionError(
            "schema.registry.url", f"{field}.format = avro needs it: where the schema registry is, as in http://127.0.0.1:8081"
        )
    return FieldOptions(format_, schema, subject)  # type: ignore[arg-type]  # `_word` has checked it


def _mode(options: Mapping[str, str]) -> Mode:
    return _word(options, "mode", ("FAILFAST", "PERMISSIVE", "DROPMALFORMED"), default="FAILFAST")  # type: ignore[return-value]  # checked


def registry_addresses(options: Mapping[str, str]) -> Addresses | None:
    """Where the schema registry is, with the name and password that go with it, which no message shows."""
    url = _not_empty(options, "schema.registry.url")
    if url is None:
        return None
    try:
        return parse_addresses(url, user_info=options.get("schema.registry.basic.auth.user.info", ""), needs_scheme=True)
    except UsageError as error:
        raise OptionError("schema.registry.url", str(error)) from None


def _not_empty(options: Mapping[str, str], name: str) -> str | None:
    text = options.get(name)
    if text is not None and not text.strip():
        raise OptionError(name, "it is empty")
    return text


def _word(options: Mapping[str, str], name: str, allowed: tuple[str, ...], *, default: str) -> str:
    text = options.get(name, default)
    for word in allowed:
        if word.lower() == text.strip().lower():
            return word
    raise OptionError(name, f"{text!r} is none of {', '.join(allowed)}")


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _word(options, name, ("true", "false"), default=str(default)) == "true"


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isascii() or not text.strip().isdecimal() or int(text) == 0:
        raise OptionError(name, f"{text!r} is not a whole number above zero")
    return int(text)


def _duration_ms(options: Mapping[str, str], name: str, *, default: str) -> int:
    text = options.get(name, default)
    found = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
    if not found or found[2] not in _TIME_UNITS_MS:
        raise OptionError(name, f"{text!r} is not a duration: give a number with ms, s, m, h or d, as in 15m")
    return int(found[1]) * _TIME_UNITS_MS[found[2]]
