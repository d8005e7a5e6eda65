"""Windows of event time: counts, sums, distinct and most frequent values per key.

What a replayed micro-batch gives has to be what was given before, whatever the order of its rows. So doubles are added as decimals with
nine digits after the point, and equally frequent values are ordered by themselves. The most frequent values are exact while a window and
key has no more than `TRACKED` different ones, and approximate beyond.
"""

from time import time
from typing import TYPE_CHECKING, Final

from millstream.errors import UsageError
from millstream.spark.jobs.description.measure import Measure
from millstream.spark.jobs.description.topic_input import EVENT_TIME
from millstream.spark.jobs.description.windows_job import WindowsJob
from millstream.spark.jobs.streams.closing import close_windows
from millstream.spark.jobs.streams.events import Transform, read_events
from millstream.spark.jobs.streams.late_messages import count_ends
from millstream.spark.jobs.streams.results import BatchWriter, as_messages, start_writing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRACKED: Final = 10_000
"""Different values of a `top` that are followed in one window and key."""
_DECIMAL: Final = "decimal(38, 9)"
_WINDOW: Final = "millstream_window"
"""A column beside those of the key and the measures, which may well be called `window`."""
_NOT_COUNTED: Final = ("binary", "array", "map", "struct")


def build_windows(session: "SparkSession", job: WindowsJob, *, is_final: bool = False, transform: Transform | None = None) -> "DataFrame":
    """The results as a stream: `window_start`, `window_end`, the key's columns, the measures."""
    events = read_events(session, job, "input", is_final=is_final, transform=transform)
    # What de-duplication leaves out as late Spark counts one by one; of sessions it adds up only what has the same key and time.
    if job.input.deduplicate is False and job.window.kind != "session":
        events = count_ends(events, EVENT_TIME, step_ms=job.window.step_ms)
    return measure_windows(events, job)


def measure_windows(events: "DataFrame", job: WindowsJob) -> "DataFrame":
    """The results of these events, which have their columns and `event_time`."""
    from pyspark.sql import functions as f

    keys = [f.col(column).alias(name) for column, name in zip(job.window.by, job.keys, strict=True)]
    measures = job.parsed_measures
    grouped = events.groupBy(_window(job).alias(_WINDOW), *keys).agg(*(_aggregate(one, events).alias(one.name) for one in measures))
    results = grouped.select(
        f.col(f"{_WINDOW}.start").alias("window_start"),
        f.col(f"{_WINDOW}.end").alias("window_end"),
        *job.keys,
        *(_finished(one).alias(one.name) for one in measures),
    )
    if not job.complete_from_ms:
        return results
    return results.where(f.col("window_start") >= f.timestamp_millis(f.lit(job.complete_from_ms)))


def start_windows(
    session: "SparkSession",
    job: WindowsJob,
    *,
    once: bool = False,
    is_final: bool = False,
    transform: Transform | None = None,
    writer: type[BatchWriter] = BatchWriter,
) -> "StreamingQuery":
    """Start the job. `once` ends it when what is there is processed; `is_final` does the same and closes the last windows, too."""
    results = build_windows(session, job, is_final=is_final, transform=transform)
    messages = as_messages(results, identity=["window_start", "window_end", *job.keys], values=results.columns)
    if is_final:
        close_windows(session, job.checkpoint, now_ms=int(time() * 1000), span_ms=job.span_ms)
    return start_writing(messages, job, once=once or is_final, writer=writer)


def _window(job: WindowsJob) -> "Column":
    from pyspark.sql import functions as f

    length = f"{job.window.length_ms} milliseconds"
    if job.window.kind == "session":
        return f.session_window(EVENT_TIME, length)
    return f.window(EVENT_TIME, length, f"{job.window.step_ms} milliseconds")


def _aggregate(measure: Measure, events: "DataFrame") -> "Column":
    from pyspark.sql import functions as f

    if measure.column is None:
        return f.count(f.lit(1))
    column = f.col(measure.column)
    if measure.kind == "sum":
        return _sum(measure, column, events.select(column).dtypes[0][1])
    if measure.kind == "distinct":
        return f.approx_count_distinct(column, measure.error)
    if measure.kind == "top":
        return _top(measure, column, events.select(column).dtypes[0][1])
    return f.min(column) if measure.kind == "min" else f.max(column)


def _sum(measure: Measure, column: "Column", kind: str) -> "Column":
    from pyspark.sql import functions as f

    # A sum that does not fit into its type is null: an error would come again with every micro-batch, for ever.
    if kind in {"float", "double"}:
        return f.try_sum(column.try_cast(_DECIMAL)).cast("double")
    if kind in {"tinyint", "smallint", "int", "bigint"} or kind.startswith("decimal"):
        return f.try_sum(column)
    raise UsageError(f"[measures] {measure.name}: the column {measure.column!r} is of type {kind}, which cannot be added up")


def _top(measure: Measure, column: "Column", kind: str) -> "Column":
    from pyspark.sql import functions as f

    if kind.startswith(_NOT_COUNTED):
        raise UsageError(
            f"[measures] {measure.name}: the column {measure.column!r} is of type {kind}, values of which cannot be counted one by one: "
            'compute a text of it in [input.columns], as in name = "string(message_key)"'
        )
    return f.call_function("approx_top_k", column, f.lit(TRACKED), f.lit(TRACKED))


def _finished(measure: Measure) -> "Column":
    """The measure as the results show it: of a `top` the first K, the most frequent first."""
    from pyspark.sql import functions as f

    column = f.col(measure.name)
    if measure.kind != "top":
        return column
    # Spark counts missing values like others.
    values = f.filter(column, lambda one: one["item"].isNotNull())
    ordered = f.array_sort(f.transform(values, lambda one: f.struct((-one["count"]).alias("count"), one["item"].alias("item"))))
    first = f.slice(ordered, 1, measure.k)
    return f.transform(first, lambda one: f.struct(one["item"].alias("value"), (-one["count"]).alias("count")))
