"""The tier of a write: what its tasks have written, published by the driver when all of them have.

What a task wrote whose attempt failed is not in it: its next attempt writes the same rows again, so they are on the topic twice, and the
audit shows them as surplus. A micro-batch is named by its query, run and number (`sink_progress`), so that its report counts once.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from millstream.audit.reports.report import Count, Kind
from millstream.audited.batch_reports import publish_batch, reporter_of
from millstream.spark.sink.write_plan import WritePlan


class SinkCount(NamedTuple):
    """Rows that one task has written to a topic in one bucket, and the bytes of their records."""

    topic: str
    bucket: int
    rows: int
    size_bytes: int


class Counted(Protocol):
    """What a task has written."""

    @property
    def counts(self) -> tuple[SinkCount, ...]: ...


def publish_counts(plan: WritePlan, written: Iterable[Counted], *, batch: str, number: int | None = None) -> None:
    """Publish what the tasks of a batch have written. Those of one run of a query are numbered without a gap, if it has one topic."""
    if plan.audit is None:
        return
    counts: dict[str, list[Count]] = {} if plan.topic is None else {plan.topic: []}
    for task in written:
        for one in task.counts:
            counts.setdefault(one.topic, []).append(Count(one.bucket, one.rows, one.size_bytes))
    is_numbered = plan.topic is not None and number is not None
    names = (plan.audit.tier, batch) if is_numbered else (plan.audit.tier, batch, number)
    publish_batch(
        plan.audit,
        plan.producer.bootstrap_servers,
        Kind.PRODUCER,
        reporter=reporter_of(*names),
        sequence=number if is_numbered and number is not None else 0,
        counts=counts,
    )
