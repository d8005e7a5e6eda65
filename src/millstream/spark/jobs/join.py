"""Joins: two streams whose events are near to each other in time, or a stream with a table.

The results have the left side's fields under their own names; those of the right side that the left one has, too, get `right_` in front,
and `left_time`, `right_time` are the times of the events. Where nothing came from the right its fields are null.

Two streams share one watermark, that of the one that is further behind: while one of them is silent nothing is given up, and left events
without a match wait.
"""

from time import time
from typing import TYPE_CHECKING, Any, Final

from millstream.errors import UsageError
from millstream.spark.jobs.closing import close_windows
from millstream.spark.jobs.events import Transform, flatten, read_events, source_options, value_options
from millstream.spark.jobs.join_job import JoinJob, JoinTable
from millstream.spark.jobs.results import as_messages, start_writing
from millstream.spark.jobs.topic_input import EVENT_TIME, MESSAGE_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PLACE: Final = ("message_partition", "message_offset")
_OWN: Final = frozenset({*MESSAGE_COLUMNS, EVENT_TIME})


def build_join(session: "SparkSession", job: JoinJob, *, is_final: bool = False, transform: Transform | None = None) -> "DataFrame":
    """The results as a stream; `left_partition`, `left_offset` and, of two streams, `right_...` say of which messages a result is made."""
    left = read_events(session, job, "left", is_final=is_final, transform=transform)
    if job.right is not None:
        right = read_events(session, job, "right", is_final=is_final, transform=transform)
    else:
        assert job.table is not None, "a join has one of the two"
        right = read_table_once(session, job, job.table)
    _check_keys(left, right, job)
    # Both sides get names that cannot be mixed up, before they meet.
    left, right = (
        side.select(*(side[f"`{name}`"].alias(f"{mark}{name}") for name in side.columns)) for side, mark in ((left, "l_"), (right, "r_"))
    )
    condition = None
    for name in job.join.on:
        equal = left[f"l_{name}"] == right[f"r_{name}"]
        condition = equal if condition is None else condition & equal
    if job.right is not None:
        condition = condition & _near_in_time(job)
    joined = left.join(right, condition, "left_outer" if job.join.type == "left" else "inner")
    return joined.select(*_result_columns(joined, job))


def start_join(
    session: "SparkSession", job: JoinJob, *, once: bool = False, is_final: bool = False, transform: Transform | None = None
) -> "StreamingQuery":
    """Start the job. `once` ends it when what is there is processed; `is_final` does the same, and waits for no more matches."""
    results = build_join(session, job, is_final=is_final, transform=transform)
    places = [name for name in ("left_partition", "left_offset", "right_partition", "right_offset") if name in results.columns]
    messages = as_messages(results, identity=[*job.join.on, *places], values=results.columns)
    if is_final:
        close_windows(session, job.checkpoint, now_ms=int(time() * 1000), span_ms=job.span_ms)
    return start_writing(messages, job, once=once or is_final)


def read_table_once(session: "SparkSession", job: JoinJob, table: JoinTable) -> "DataFrame":
    """The rows of a table, one per key; of a topic, what it says last about each message key."""
    rows = _latest_of_topic(session, job, table) if table.topic else _files(session, table)
    name = table.topic or table.path
    missing = [column for column in job.join.on if column not in rows.columns]
    if missing:
        raise UsageError(f"[join] on: the table {name} has no column {missing[0]!r}. It has: {', '.join(rows.columns)}")
    repeated = rows.groupBy(*job.join.on).count().where("count > 1").first()
    if repeated is not None:
        key = ", ".join(f"{column} = {repeated[column]!r}" for column in job.join.on)
        raise UsageError(f"[table]: {name} has {repeated['count']} rows for {key}: one row per key can be joined")
    return rows


def _files(session: "SparkSession", table: JoinTable) -> "DataFrame":
    if table.format == "delta":
        from deltalake import DeltaTable

        # Spark reads the files of a Delta table; for its log it would need a jar.
        return session.read.option("basePath", table.path).parquet(*DeltaTable(table.path).file_uris())
    reader: Any = session.read
    if table.schema:
        reader = reader.schema(table.schema)
    if table.format == "csv":
        reader = reader.option("header", value=True).option("mode", "FAILFAST")
    rows: DataFrame = reader.format(table.format).load(table.path)
    return rows


def _latest_of_topic(session: "SparkSession", job: JoinJob, table: JoinTable) -> "DataFrame":
    from pyspark.sql import functions as f

    options = {**source_options(job), **value_options(job, table.format, table.schema), "subscribe": table.topic}
    rows = session.read.format("millstream").options(**options, columns="key,value,offset,timestamp").load()
    # A key is in one partition, unless the topic got more of them: then the newest is the last word. A tombstone takes the key away.
    order = f.struct("timestamp", "offset")
    newest = rows.where("key IS NOT NULL").groupBy("key").agg(f.max_by(f.struct("value"), order).alias("last"))
    return flatten(newest.select(f.col("last.value").alias("value")), {})


def _check_keys(left: "DataFrame", right: "DataFrame", job: JoinJob) -> None:
    for name in job.join.on:
        for side, frame in (("left", left), ("right" if job.right is not None else "table", right)):
            if name not in frame.columns:
                raise UsageError(f"[join] on: [{side}] has no column {name!r}. It has: {', '.join(frame.columns)}")
        kinds = [dict(frame.dtypes)[name] for frame in (left, right)]
        if kinds[0] != kinds[1]:
            raise UsageError(
                f"[join] on: {name} is of type {kinds[0]} on the left and {kinds[1]} on the right: compute one of them in columns"
            )


def _near_in_time(job: JoinJob) -> Any:
    from pyspark.sql import functions as f

    later = f"l_{EVENT_TIME} + interval {job.join.within_ms} milliseconds"
    earlier = f"l_{EVENT_TIME} - interval {job.join.before_ms} milliseconds"
    return f.expr(f"r_{EVENT_TIME} >= {earlier} AND r_{EVENT_TIME} <= {later}")


def _result_columns(joined: "DataFrame", job: JoinJob) -> list[Any]:
    """The columns of the results under their names."""
    sides: dict[str, list[str]] = {mark: [name[2:] for name in joined.columns if name.startswith(mark)] for mark in ("l_", "r_")}
    columns = [joined[f"l_{name}"].alias(name) for name in sides["l_"] if name not in _OWN]
    names = {name.lower() for name in sides["l_"]}
    columns += [
        joined[f"r_{name}"].alias(f"right_{name}" if name.lower() in names else name)
        for name in sides["r_"]
        if name not in _OWN and name not in job.join.on
    ]
    for mark, side in (("l_", "left"), ("r_", "right")):
        if EVENT_TIME in sides[mark]:
            columns.append(joined[f"{mark}{EVENT_TIME}"].alias(f"{side}_time"))
            columns += [joined[f"{mark}{name}"].alias(name.replace("message", side)) for name in _PLACE]
    return columns
