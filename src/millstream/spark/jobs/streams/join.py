"""Joins: two streams whose events are near to each other in time, or a stream with a table.

The results have the left side's fields under their own names; those of the right side that the left one has, too, get `right_` in front,
and `left_time`, `right_time` are the times of the events. Where nothing came from the right its fields are null.

Two streams share one watermark, that of the one that is further behind: while one of them is silent nothing is given up, and left events
without a match wait.
"""

from collections import Counter
from collections.abc import Sequence
from time import time
from typing import TYPE_CHECKING, Any, Final

from millstream.errors import UsageError
from millstream.spark.jobs.description.join_job import JoinJob, JoinTable
from millstream.spark.jobs.description.topic_input import EVENT_TIME, MESSAGE_COLUMNS
from millstream.spark.jobs.streams.closing import close_windows
from millstream.spark.jobs.streams.events import Transform, read_events
from millstream.spark.jobs.streams.join_table import KeptTable
from millstream.spark.jobs.streams.results import BatchWriter, as_messages, check_table, start_batches, start_writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PLACE: Final = ("message_partition", "message_offset")
_OWN: Final = frozenset({*MESSAGE_COLUMNS, EVENT_TIME})


def build_join(session: "SparkSession", job: JoinJob, *, is_final: bool = False, transform: Transform | None = None) -> "DataFrame":
    """The results as a stream; `left_partition`, `left_offset` and, of two streams, `right_...` say of which messages a result is made."""
    left = read_events(session, job, "left", is_final=is_final, transform=transform)
    if job.right is not None:
        return join_events(left, read_events(session, job, "right", is_final=is_final, transform=transform), job)
    assert job.table is not None, "a join has one of the two"
    return join_events(left, KeptTable(session, job, job.table).rows(), job)


def join_events(left: "DataFrame", right: "DataFrame", job: JoinJob) -> "DataFrame":
    """The events of the left side with those of the right one, or with the rows of a table."""
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
    if job.table is not None:
        return _start_with_table(session, job, job.table, once=once or is_final, transform=transform)
    messages = _as_messages(build_join(session, job, is_final=is_final, transform=transform), job)
    if is_final:
        close_windows(session, job.checkpoint, now_ms=int(time() * 1000), span_ms=job.span_ms)
    return start_writing(messages, job, once=once or is_final, writer=BatchWriter)


def _start_with_table(
    session: "SparkSession", job: JoinJob, table: JoinTable, *, once: bool, transform: Transform | None
) -> "StreamingQuery":
    """Each micro-batch meets the table as it is then."""
    events = read_events(session, job, "left", transform=transform)
    kept = KeptTable(session, job, table)

    def to_messages(some: "DataFrame") -> "DataFrame":
        return _as_messages(join_events(some, kept.rows(), job), job)

    planned = to_messages(events)  # also without a table: what cannot be joined is said before anything runs
    if job.output.table:
        check_table(planned, job)
    return start_batches(events, BatchWriter(job, to_messages), job, once=once)


def _as_messages(results: "DataFrame", job: JoinJob) -> "DataFrame":
    places = [name for name in ("left_partition", "left_offset", "right_partition", "right_offset") if name in results.columns]
    return as_messages(results, identity=[*job.join.on, *places], values=results.columns)


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
    left, right = ([name[2:] for name in joined.columns if name.startswith(mark)] for mark in ("l_", "r_"))
    # The rows of a table may have any names: only streams have columns of the message.
    own_of_right = _OWN if job.right is not None else frozenset[str]()
    named = {name: f"l_{name}" for name in left if name not in _OWN}
    taken = {name.lower() for name in named}
    fields = [name for name in right if name not in own_of_right and name not in job.join.on]
    columns = [*named.items(), *((f"right_{name}" if name.lower() in taken else name, f"r_{name}") for name in fields)]
    for mark, side in (("l_", "left"), ("r_", "right"))[: len(job.inputs)]:
        columns.append((f"{side}_time", f"{mark}{EVENT_TIME}"))
        columns += [(name.replace("message", side), f"{mark}{name}") for name in _PLACE]
    _check_names([name for name, _ in columns])
    return [joined[source].alias(name) for name, source in columns]


def _check_names(names: Sequence[str]) -> None:
    """Raise if two columns of the results would have one name; Spark does not distinguish upper and lower case."""
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1:
            raise UsageError(
                f"[join]: the results would have two columns {name!r}. left_..., right_... are names that a join gives: in Python, rename "
                "the field with a `transform`"
            )
