"""Closing the last windows of a job, whose topics will bring nothing newer.

A window is finished when the watermark has passed it, and the watermark follows the newest event: the last windows of a topic stay open
until something newer comes, also when a run ends because everything is processed. `--final` therefore gives the job one row more, with a
time after all of its windows. The row comes from a file in the directory `millstream-closing` of the checkpoint, which every job reads as
a second stream; Spark's checkpoint knows that it was read, as it knows offsets, so a run that is killed there goes on like any other.

A closed window stays closed: what comes for it later is late, and counted as such.
"""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from millstream.spark.jobs.description.topic_input import EVENT_TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIRECTORY: Final = "millstream-closing"
IS_CLOSING: Final = "millstream_is_closing"
_MARGIN_MS: Final = 10_000
"""From the moment that a run is asked for until it knows where its topics end; messages come meanwhile."""


def with_closing_row(session: "SparkSession", events: "DataFrame", checkpoint: str, *, name: str, watermark_ms: int) -> "DataFrame":
    """The events with their watermark, which a closing row moves, too; the row itself is gone after that. `name` is that of the stream."""
    from pyspark.sql import functions as f

    directory = _directory(checkpoint)
    _file_system(session, directory).mkdirs(_path(session, directory))
    rows = session.readStream.schema(f"{EVENT_TIME} TIMESTAMP").json(directory).withColumn(IS_CLOSING, f.expr("true"))
    both = events.withColumn(IS_CLOSING, f.expr("false")).unionByName(rows, allowMissingColumns=True)
    # Spark moves filters to the source, past the watermark, also those that it infers from a join: the row would not be seen. It moves none
    # past a place where rows are counted.
    counted = both.withWatermark(EVENT_TIME, f"{watermark_ms} milliseconds").observe(name, f.count(f.lit(1)).alias("rows"))
    return counted.where(f"NOT {IS_CLOSING}").drop(IS_CLOSING)


def close_windows(session: "SparkSession", checkpoint: str, *, now_ms: int, span_ms: int) -> None:
    """Let the next micro-batch finish every window that has begun by now; `span_ms` is how long one stays open, the watermark included."""
    directory = _directory(checkpoint)
    moment = closing_time(now_ms, span_ms=span_ms)
    files = _file_system(session, directory)
    unfinished, finished = (_path(session, f"{directory}/{name}{now_ms}.json") for name in (".", ""))
    out = files.create(unfinished)
    out.write(json.dumps({EVENT_TIME: moment.isoformat()}).encode())
    out.close()
    # Spark passes over names that begin with a dot, so it does not see half of a file.
    files.rename(unfinished, finished)


def closing_time(now_ms: int, *, span_ms: int) -> datetime:
    """When an event would have to be to finish every window that has begun by now, and as few others as possible."""
    return datetime.fromtimestamp((now_ms + span_ms + _MARGIN_MS) / 1000, UTC)


def _directory(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}/{DIRECTORY}"


def _path(session: "SparkSession", path: str) -> Any:
    jvm: Any = session.sparkContext._jvm
    return jvm.org.apache.hadoop.fs.Path(path)


def _file_system(session: "SparkSession", path: str) -> Any:
    context: Any = session.sparkContext
    return _path(session, path).getFileSystem(context._jsc.hadoopConfiguration())
