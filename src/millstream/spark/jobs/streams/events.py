"""The events of a topic as a stream of Spark: one column per field of the message's value, and the time of the event with its watermark."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.errors import UsageError
from millstream.spark.jobs.description.job_settings import Job
from millstream.spark.jobs.description.topic_input import EVENT_TIME, MESSAGE_COLUMNS, TopicInput
from millstream.spark.jobs.running.batch_progress import MALFORMED, UNTIMED
from millstream.spark.jobs.streams.closing import with_closing_row

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

Transform = Callable[["DataFrame"], "DataFrame"]
_PLACE: Final = ("message_partition", "message_offset")
_TIMES_MS: Final = (-62_135_596_800_000, 253_402_300_799_999)
"""The years 1 to 9999."""


def read_events(
    session: "SparkSession", job: Job, section: str, *, is_final: bool = False, transform: Transform | None = None
) -> "DataFrame":
    """The stream of one input of a job, with its watermark and without repeated messages; `transform` sees the events before that."""
    wanted = job.inputs[section]
    options = {
        **source_options(job),
        **value_options(job, wanted.format, wanted.schema),
        **start_options(wanted.start),
        "subscribe": wanted.topic,
        "columns": "key,value,timestamp,partition,offset",
        "group.id": job.group,
    }
    # The closing row has to come with the last messages, and not before some of them.
    if wanted.max_per_batch and not is_final:
        options["maxOffsetsPerTrigger"] = str(wanted.max_per_batch)
    rows = _well_formed(session, options, wanted, section)
    events = _computed(flatten(rows, MESSAGE_COLUMNS), wanted, section)
    if transform is not None:
        events = transform(events)
    timed = with_event_time(events, wanted, section)
    marked = with_closing_row(session, timed, job.checkpoint, name=section, watermark_ms=wanted.watermark_ms)
    return without_repeated(marked, wanted)


def _well_formed(session: "SparkSession", options: dict[str, str], wanted: TopicInput, section: str) -> "DataFrame":
    """The messages that are of their format; others end the job, or are counted and perhaps produced to a topic of dead letters."""
    from pyspark.sql import functions as f

    if wanted.malformed == "fail":
        return session.readStream.format("millstream").options(**options, mode="FAILFAST").load()
    source = "millstream"
    if wanted.dead_letter_topic is not None:
        from millstream.spark.jobs.streams.dead_letter_source import FORMAT, TOPIC, DeadLetterSource

        session.dataSource.register(DeadLetterSource)
        source, options = FORMAT, {**options, TOPIC: wanted.dead_letter_topic}
    rows = session.readStream.format(source).options(**options, mode="PERMISSIVE").load()
    counted = rows.observe(f"{section}-{MALFORMED}", f.count("corrupt_value").alias(MALFORMED))
    return counted.where("corrupt_value IS NULL").drop("corrupt_value")


def source_options(job: Job) -> dict[str, str]:
    """What every read and write of a job needs."""
    return {"kafka.bootstrap.servers": job.brokers, **{f"kafka.{name}": value for name, value in job.kafka.items()}}


def value_options(job: Job, value_format: str, schema: str) -> dict[str, str]:
    """How values are read or written."""
    options = {"value.format": value_format}
    if schema:
        options["value.schema"] = schema
    if value_format == "avro":
        options["schema.registry.url"] = job.registry
    return options


def start_options(start: str) -> dict[str, str]:
    """Where a new query begins."""
    if start.startswith("@"):
        # A partition without anything so new has nothing to replay.
        return {"startingTimestamp": start[1:], "startingOffsetsByTimestampStrategy": "latest"}
    return {"startingOffsets": start}


def flatten(rows: "DataFrame", own: dict[str, str]) -> "DataFrame":
    """The fields of values as columns, and those of the message under names of their own; a null value, a tombstone, is no event."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    value_type = rows.schema["value"].dataType
    fields = [f.col(f"value.`{name}`").alias(name) for name in value_type.names] if isinstance(value_type, StructType) else [f.col("value")]
    names = value_type.names if isinstance(value_type, StructType) else ["value"]
    taken = sorted({name.lower() for name in names} & set(own))
    if taken:
        raise UsageError(
            f"the messages have a field {taken[0]!r}, which is the name of a column of every message: jobs cannot read this topic"
        )
    return rows.where("value IS NOT NULL").select(*fields, *(f.col(source).alias(name) for name, source in own.items()))


def with_event_time(events: "DataFrame", wanted: TopicInput, section: str) -> "DataFrame":
    """The events with the column that windows go by; one without a time is in no window, and counted."""
    from pyspark.sql import functions as f

    if EVENT_TIME in {name.lower() for name in events.columns} and wanted.time.lower() != EVENT_TIME:
        raise UsageError(
            f'[{section}] time: the messages have a field {EVENT_TIME!r}, so it has to be the time of the event: time = "{EVENT_TIME}"'
        )
    column = events.select(wanted.time)
    timed = events.withColumn(EVENT_TIME, _as_timestamp(wanted, column.schema[0].dataType, section))
    counted = timed.observe(f"{section}-{UNTIMED}", f.count_if(f.col(EVENT_TIME).isNull()).alias(UNTIMED))
    return counted.where(f"{EVENT_TIME} IS NOT NULL")


def without_repeated(events: "DataFrame", wanted: TopicInput) -> "DataFrame":
    """The events, each once within the watermark."""
    from pyspark.sql import functions as f

    if wanted.deduplicate is False:
        return events
    if wanted.deduplicate is not True:
        return events.dropDuplicatesWithinWatermark(list(wanted.deduplicate))
    # Messages without a key are identified by partition and offset: a missing key is not an equal key.
    place = {f"unkeyed_{name}": f.when(f.col("message_key").isNull(), f.col(name)) for name in _PLACE}
    return events.withColumns(place).dropDuplicatesWithinWatermark(["message_key", *place]).drop(*place)


def _computed(events: "DataFrame", wanted: TopicInput, section: str) -> "DataFrame":
    """The events with computed columns, and only those that are wanted."""
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as f

    for name, expression in wanted.columns.items():
        try:
            events = events.withColumn(name, f.expr(expression))
        except (AnalysisException, ParseException) as error:
            raise UsageError(f"[{section}.columns] {name}: {spark_sentence(error)}") from error
    if not wanted.where:
        return events
    try:
        return events.where(wanted.where)
    except (AnalysisException, ParseException) as error:
        raise UsageError(f"[{section}] where: {spark_sentence(error)}") from error


def spark_sentence(error: Exception) -> str:
    """What Spark says about an expression, without its plan."""
    return str(error).partition("\n")[0].partition("; line")[0].strip()


def _as_timestamp(wanted: TopicInput, kind: "DataType", section: str) -> "Column":
    from pyspark.sql import functions as f
    from pyspark.sql.types import IntegerType, LongType, TimestampType

    column = f.col(wanted.time)
    if isinstance(kind, TimestampType):
        # Of one absurd time the watermark would never come back.
        return f.when(f.unix_millis(column).between(*_TIMES_MS), column)
    if isinstance(kind, LongType | IntegerType):
        # What is no time at all would end the query instead of being left out.
        return f.when(column.between(*_TIMES_MS), f.timestamp_millis(column))
    raise UsageError(
        f"[{section}] time: the column {wanted.time!r} is of type {kind.simpleString()}: it has to be a timestamp, or a whole number of "
        'milliseconds since 1970. Compute one in columns, as in when = "to_timestamp(date)"'
    )
