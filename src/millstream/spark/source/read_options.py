"""The options of a read: those of Spark's own connector under their own names, and ours.

Of Kafka's own options (`kafka.*`) those that say something about a read are obeyed, those that Spark's connector refuses are refused, and
the others tune the Java client and have no effect.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, get_args

from millstream.arrow.columns import Field, Mode
from millstream.arrow.data_loss import DataLoss
from millstream.audited.settings import AuditSettings
from millstream.client.security.client_security import ClientSecurity
from millstream.offset import EARLIEST, LATEST
from millstream.registry.addresses import Addresses
from millstream.spark.options import READ, FieldOptions, OptionError, Options
from millstream.spark.positions import AtEdge, AtOffsets, Position, parse_offsets_option, parse_timestamp_option, parse_timestamps_option
from millstream.spark.source.offset_ranges import DEFAULT_MIN_RECORDS_PER_TASK
from millstream.spark.topic_selection import TopicSelection, parse_selection

logger = logging.getLogger(__name__)

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
DEFAULT_FETCH_BYTES: Final = 4 * 1024 * 1024
"""More than Kafka's 1 MiB: with a request per megabyte the waiting for requests is felt."""
_REFUSED: Final = {
    "auto.offset.reset": "startingOffsets says where a new query begins",
    "enable.auto.commit": "group.id commits the progress of the query",
    "key.deserializer": "key.format says what a key is",
    "value.deserializer": "value.format says what a value is",
    "interceptor.classes": "there is no Java consumer here whose messages could be intercepted",
}


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
    min_records_per_partition: int
    """Partitions with fewer to read share tasks."""
    include_headers: bool
    group_id: str | None
    client_id: str
    read_committed: bool
    check_crcs: bool
    fetch_bytes: int
    request_timeout_ms: int
    security: ClientSecurity
    poll_timeout_ms: int
    columns: tuple[str, ...] | None
    key: FieldOptions
    value: FieldOptions
    mode: Mode
    registry: Addresses | None
    audit: AuditSettings | None

    poll_timeout_option: ClassVar[str] = "kafkaConsumer.pollTimeoutMs"

    def report_data_loss(self, what: str) -> None:
        """Records that the query was to read are gone: raises `DataLoss`, or logs a warning, as `failOnDataLoss` says."""
        if self.fail_on_data_loss:
            raise DataLoss(f"{what}. Some data may have been missed; failOnDataLoss = false (a load: --allow-data-loss) goes on without it")
        logger.warning("%s. Some data may have been missed", what)


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read, or an `OptionError` that says which one is wrong and what it may be."""
    options = Options(given, READ)
    options.refuse_kafka(_REFUSED)
    maximum, minimum = options.positive("maxOffsetsPerTrigger"), options.positive("minOffsetsPerTrigger")
    if maximum is not None and minimum is not None and minimum > maximum:
        raise OptionError("minOffsetsPerTrigger", f"{minimum} is more than maxOffsetsPerTrigger, {maximum}")
    largest = options.positive("maxRecordsPerPartition")
    strategy = options.word("startingOffsetsByTimestampStrategy", ("error", "latest"), default="error")
    isolation_level = "isolation.level" if "isolation.level" in options else "kafka.isolation.level"
    isolation = options.word(isolation_level, ("read_uncommitted", "read_committed"), default="read_uncommitted")
    include_headers = options.flag("includeHeaders", default=False)
    return ReadOptions(
        bootstrap_servers=options.bootstrap_servers(),
        selection=parse_selection(options),
        starting=_position(options, "starting"),
        ending=_position(options, "ending"),
        starting_latest_if_no_match=strategy == "latest",
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", default="15m"),
        min_partitions=options.positive("minPartitions"),
        max_records_per_partition=largest,
        min_records_per_partition=_smallest_task(options, largest),
        include_headers=include_headers,
        group_id=options.text("group.id"),
        client_id=options.get("kafka.client.id") or options.get("groupIdPrefix") or "spark-millstream-source",
        read_committed=isolation == "read_committed",
        check_crcs=options.flag("kafka.check.crcs", default=True),
        fetch_bytes=options.number("kafka.max.partition.fetch.bytes", DEFAULT_FETCH_BYTES),
        request_timeout_ms=options.number("kafka.request.timeout.ms", 30_000),
        security=options.security(),
        poll_timeout_ms=options.positive("kafkaConsumer.pollTimeoutMs") or 120_000,
        columns=_columns(options, include_headers=include_headers),
        key=_field(options, "key"),
        value=_field(options, "value"),
        mode=options.word("mode", get_args(Mode), default="FAILFAST"),
        registry=options.registry(),
        audit=options.audit(),
    )


def check_batch_options(options: ReadOptions) -> None:
    """What a batch cannot do: begin at the end, end at the beginning, commit what it has read. Limits of micro-batches have no effect on
    it, as in Spark's own connector."""
    _refuse_edge("startingOffsets", options.starting, LATEST, "a batch cannot begin at the latest offset")
    _refuse_edge("endingOffsets", options.ending, EARLIEST, "a batch cannot end at the earliest offset")
    if options.group_id is not None:
        raise OptionError("group.id", "only a stream commits its progress; it is for spark.readStream")
    if options.audit is not None:
        raise OptionError("audit", "only a stream knows what has been processed; it is for spark.readStream")


def check_stream_options(options: ReadOptions) -> None:
    """What a stream cannot do: end."""
    if options.ending is not None:
        raise OptionError("endingOffsets, endingTimestamp, endingOffsetsByTimestamp", "a stream has no end; they are for spark.read")


def _refuse_edge(option: str, position: Position | None, edge: int, problem: str) -> None:
    if position == AtEdge(edge) or (isinstance(position, AtOffsets) and edge in position.offsets.values()):
        raise OptionError(option, f"{problem}: give {'earliest' if edge == LATEST else 'latest'}, offsets or a time")


def _position(options: Options, edge: str) -> Position | None:
    """Spark's order of precedence: one time for all, times per partition, offsets."""
    if (text := options.get(f"{edge}Timestamp")) is not None:
        return parse_timestamp_option(f"{edge}Timestamp", text)
    if (text := options.get(f"{edge}OffsetsByTimestamp")) is not None:
        return parse_timestamps_option(f"{edge}OffsetsByTimestamp", text)
    if (text := options.get(f"{edge}Offsets")) is not None:
        return parse_offsets_option(f"{edge}Offsets", text)
    return None


def _smallest_task(options: Options, largest: int | None) -> int:
    """Nothing is put together that `maxRecordsPerPartition` would have to split."""
    smallest = options.positive("minRecordsPerPartition")
    if smallest is not None and largest is not None and smallest > largest:
        raise OptionError("minRecordsPerPartition", f"{smallest} is more than maxRecordsPerPartition, {largest}")
    return smallest or min(DEFAULT_MIN_RECORDS_PER_TASK, largest or DEFAULT_MIN_RECORDS_PER_TASK)


def _columns(options: Options, *, include_headers: bool) -> tuple[str, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    wanted = {name.strip().lower() for name in text.split(",")} - {""}
    unknown = wanted - {name.lower() for name in COLUMNS}
    if unknown or not wanted:
        raise OptionError("columns", f"{text!r} is not a list of columns: choose from {', '.join(COLUMNS)}")
    if "headers" in wanted and not include_headers:
        raise OptionError("columns", "headers are read only with includeHeaders = true")
    return tuple(name for name in COLUMNS if name.lower() in wanted)


def _field(options: Options, name: Field) -> FieldOptions:
    field = options.field(name)
    if field.schema and field.format not in {"json", "avro"}:
        raise OptionError(f"{name}.schema", f"it goes with {name}.format = json (columns, as in 'id BIGINT, name STRING') or avro")
    if field.subject and (field.format != "avro" or field.schema):
        raise OptionError(f"{name}.subject", f"it goes with {name}.format = avro, where {name}.schema is not given")
    if field.format == "json" and not field.schema:
        raise OptionError(f"{name}.schema", f"{name}.format = json needs it: the columns, as in 'id BIGINT, name STRING'")
    return field
