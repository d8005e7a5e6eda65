"""A load into a directory of Parquet files by Spark's own sink: for places that only Spark reaches (`hdfs://`, `s3a://`), and its readers.

    <to>/topic=clicks/event_date=2026-05-04/event_hour=12/part-....snappy.parquet
    <to>/_spark_metadata/<micro-batch>                                               the files that count

What it costs: about a third of the speed of a Delta table. What it risks: only Spark reads `_spark_metadata`. Others take every file that
they find, also those of a micro-batch that was killed and done again, and torn ones. One directory belongs to one checkpoint for ever: with
a new one Spark takes the first micro-batches for repetitions, and drops them; that is refused here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from millstream.errors import UsageError
from millstream.lake.columns import EVENT_DATE, EVENT_HOUR, EVENT_TIMESTAMP, KAFKA_TIMESTAMP
from millstream.lake.errors import TableMismatch
from millstream.lake.hour_files import END_OF_TIME_US
from millstream.lake.place import normal_address
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.table_plan import TablePlanner
from millstream.spark.jobs.running.progress import local_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

END_OF_TIME_MS: Final = 253_402_300_800_000
"""The year 10000."""
_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"


def start_parquet_load(session: "SparkSession", settings: LoadSettings) -> "StreamingQuery":
    """Start the load."""
    # Spark's default are 96 bits, which cost a quarter of the speed and have no statistics.
    session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    writer = build_parquet_load(session, settings).writeStream.format("parquet").option("path", settings.to)
    return triggered(writer.option("compression", "zstd").partitionBy("topic", EVENT_DATE, EVENT_HOUR), settings).start()


def build_parquet_load(session: "SparkSession", settings: LoadSettings) -> "DataFrame":
    """The rows: the fields of a record, or `value`, and where they come from."""
    rows = message_rows(session, settings, settings.read_options())
    time = KAFKA_TIMESTAMP if settings.event_time is None else _event_time(rows, settings.event_time)
    if settings.event_time is not None:
        rows = rows.selectExpr("*", f"{time} AS {EVENT_TIMESTAMP}")
        time = EVENT_TIMESTAMP
    return rows.selectExpr("*", f"to_date({time}) AS {EVENT_DATE}", f"hour({time}) AS {EVENT_HOUR}")


def message_rows(session: "SparkSession", settings: LoadSettings, options: Mapping[str, str]) -> "DataFrame":
    """The messages with the columns of a table, and their topic."""
    formats = {"value.format": settings.value_format, "key.format": settings.key_format, "includeHeaders": str(settings.headers).lower()}
    given = {"value.schema": settings.value_schema, "key.schema": settings.key_schema, "schema.registry.url": settings.registry}
    given |= _avro_schemas(settings)
    known = {name: value for name, value in given.items() if value is not None}
    rows = session.readStream.format("millstream").options(**options, **formats, **known).load()
    is_record = settings.value_format in {"json", "avro"} and rows.schema["value"].dataType.typeName() == "struct"
    return rows.selectExpr(
        "value.*" if is_record else "value",
        "key AS kafka_key",
        "partition AS kafka_partition",
        "offset AS kafka_offset",
        f"timestamp AS {KAFKA_TIMESTAMP}",
        *(["headers AS kafka_headers"] if settings.headers else []),
        "topic",
    )


def _avro_schemas(settings: LoadSettings) -> dict[str, str]:
    """The schemas that plain loads read Avro with, made of all versions: so the columns, and what can be read, are the same."""
    if "avro" not in {settings.value_format, settings.key_format}:
        return {}
    with TablePlanner(settings) as planner:
        plans = planner.plans()
    if any(plan.record is not None for plan in plans):
        raise UsageError(
            f"{settings.topics[0]} has several record types, a table for each: that takes a load without sql, and into Delta or Iceberg."
        )
    return {f"{name}.schema": field.avro[0] for name, field in (("value", plans[0].value), ("key", plans[0].key)) if field.avro}


def _event_time(rows: "DataFrame", path: str) -> str:
    """The field as a time, in SQL: null where it is none that a date can be made of."""
    quoted = ".".join(f"`{name}`" for name in path.split("."))
    kind = rows.selectExpr(f"{quoted} AS time").schema["time"].dataType.typeName()
    if kind in {"long", "integer"}:
        # Looked at before it becomes a time: what is absurd would be an error.
        return f"CASE WHEN {quoted} >= 0 AND {quoted} < {END_OF_TIME_US // 1000} THEN timestamp_millis({quoted}) END"
    moment = f"CAST({quoted} AS TIMESTAMP)"
    return f"CASE WHEN unix_micros({moment}) >= 0 AND unix_micros({moment}) < {END_OF_TIME_US} THEN {moment} END"


def triggered(writer: "DataStreamWriter", settings: LoadSettings) -> "DataStreamWriter":
    """The writer with the checkpoint and the trigger that were asked for."""
    writer = writer.option("checkpointLocation", settings.checkpoint)
    if settings.once:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{settings.every_ms} milliseconds")


def check_directory(settings: LoadSettings) -> None:
    """Raises `TableMismatch` for a directory that another checkpoint has written to: it would silently lose the first micro-batches of this
    one. Only directories of this machine are looked at."""
    if "://" in settings.to or local_directory(settings.checkpoint) is None:
        return
    known = Path(normal_address(settings.to), "_spark_metadata")
    if known.exists() and not Path(normal_address(settings.checkpoint), "metadata").exists():
        raise TableMismatch(
            f"the directory {settings.to} was loaded with another checkpoint: Spark would drop what it takes for micro-batches that it has "
            "already. Use that checkpoint, or load to another place (--to)."
        )
