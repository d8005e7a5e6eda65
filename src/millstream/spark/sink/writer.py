"""`df.write` and `INSERT INTO` of SQL (`BatchWriter`), and `df.writeStream` (`StreamWriter`).

Spark makes one writer on the driver, for a stream anew for every micro-batch and once more for its commit, and unpickled copies of it write
the rows of each task. Rows of a task that failed stay where they are, and its next attempt writes them again: at least once, as with
Spark's own sink.

But a micro-batch that was committed and is replayed is not written again (see `sink_progress`). Each task of a stream asks what is
remembered before it writes. If that is the id of its own micro-batch it writes nothing and only computes the digest of its rows; the commit
compares the sum with what was written, and ends the query if it is something else. What a task has written travels from `write` to `commit`
in a message, and with it the id of the query and what was remembered of it, which only tasks can see.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from millstream.errors import UsageError
from millstream.spark.options import OptionError
from millstream.spark.query_id import QUERY_ID
from millstream.spark.sink.sink_audit import SinkCount, publish_counts
from millstream.spark.sink.sink_progress import SinkProgress, WrittenBatch
from millstream.spark.sink.write_plan import plan_write
from millstream.spark.worker_connections import cluster_for

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_BATCH_ID: Final = "streaming.sql.batchId"
_DIGESTS: Final = 1 << 64


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """What one task has written."""

    row_count: int
    counts: tuple[SinkCount, ...] = ()


class BatchWriter(DataSourceArrowWriter):
    """Writes rows to topics."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("mode", "a topic cannot be overwritten, only appended to: write with mode append")
        self._plan = plan_write(options, schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> RowsWritten:
        """Write the rows of one task."""
        from millstream.spark.sink.task_writer import write_rows  # brings numba along, which the driver does not need

        written = write_rows(self._plan, iterator)
        return RowsWritten(written.row_count, written.counts)

    def commit(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        """Every task has written its rows."""
        publish_counts(self._plan, [message for message in messages if isinstance(message, RowsWritten)], batch=str(uuid4()))


class ReplayDiffers(UsageError):
    """A micro-batch comes again with other rows than those that were written under its id."""


@dataclass(frozen=True)
class BatchWritten(WriterCommitMessage):
    """What one task has written of a micro-batch, or would have if it were not written already."""

    query_id: str
    topics: frozenset[str]
    row_count: int
    digest: int = 0
    is_replay: bool = False
    remembered: WrittenBatch | None = None
    """What was written last when the task began."""
    counts: tuple[SinkCount, ...] = ()


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches to topics."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._plan = plan_write(options, schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> BatchWritten:
        """Write the rows of one task, unless this micro-batch is written already."""
        from millstream.spark.sink.task_writer import digest_rows, write_rows  # brings numba along, which a commit does not need

        query_id, batch_id = _whereabouts()
        if not self._plan.skips_replayed_batches:
            written = write_rows(self._plan, iterator)
            return BatchWritten(query_id, written.topics, written.row_count, counts=written.counts)
        remembered = self._progress(query_id).last_written()
        is_replay = remembered is not None and remembered.batch_id == batch_id
        written = digest_rows(self._plan, iterator) if is_replay else write_rows(self._plan, iterator, with_digest=True)
        return BatchWritten(query_id, written.topics, written.row_count, written.digest, is_replay, remembered, written.counts)

    def commit(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Remember that the micro-batch is written."""
        written = [message for message in messages if isinstance(message, BatchWritten)]
        if not written or not self._plan.skips_replayed_batches:
            publish_counts(self._plan, written, batch=str(uuid4()))
            return
        batch, remembered = add_up(written, batchId, tier=self._plan.audit.tier if self._plan.audit is not None else None)
        if any(message.is_replay for message in written):
            assert remembered is not None
            check_replay(batch, remembered, is_whole=all(message.is_replay for message in written))
            return
        if remembered is not None and remembered.batch_id > batch.batch_id:
            warn_of_rollback(batch, remembered)
            # Also without rows: what comes later under the remembered id is not what was written under it.
            batch = batch._replace(topics=batch.topics or remembered.topics)
        # Without rows there is nothing that a replay could repeat.
        if batch.topics:
            # Before the batch is remembered: a replay that comes in between writes its rows again, and they are duplicates then.
            publish_counts(self._plan, written, batch=f"{written[0].query_id}/{batch.run}", number=batch.report)
            self._progress(written[0].query_id).remember(batch)

    def _progress(self, query_id: str) -> SinkProgress:
        settings = self._plan.producer
        return SinkProgress(cluster_for(settings), query_id, self._plan.topic, timeout_s=settings.request_timeout_ms / 1000)


def add_up(written: Sequence[BatchWritten], batch_id: int, *, tier: str | None = None) -> tuple[WrittenBatch, WrittenBatch | None]:
    """The micro-batch that the tasks have written together, and the one that was remembered before."""
    known = [message.remembered for message in written if message.remembered is not None]
    remembered = max(known, key=lambda batch: batch.turn, default=None)
    batch = WrittenBatch(
        batch_id,
        sum(message.row_count for message in written),
        sum(message.digest for message in written) % _DIGESTS,
        frozenset[str]().union(*(message.topics for message in written)),
    )
    return batch.after(remembered, tier=tier), remembered


def check_replay(batch: WrittenBatch, remembered: WrittenBatch, *, is_whole: bool) -> None:
    """Whether what comes again is what was written; raises if not. `is_whole` is false if some tasks have written and some have not."""
    place = ", ".join(sorted(remembered.topics))
    if not is_whole:
        raise ReplayDiffers(
            f"the micro-batch {batch.batch_id} was written to {place} by another query while this one wrote it, too: both run from copies "
            "of one checkpoint. Stop one of them, or give it a checkpoint of its own, then start again"
        )
    if (batch.row_count, batch.digest) == (remembered.row_count, remembered.digest):
        logger.info("the micro-batch %d is on %s already and was not written again", batch.batch_id, place)
        return
    if batch.row_count == remembered.row_count:
        difference = f"has as many rows as then, {batch.row_count}, but others"
    else:
        difference = f"has {batch.row_count} rows where there were {remembered.row_count}"
    raise ReplayDiffers(
        f"the micro-batch {batch.batch_id} is on {place} already, and now it {difference}: nothing of it was written. Either the "
        "checkpoint was rolled back or copied, or the query was changed, or it makes other rows each time (rand, uuid). To write these "
        "rows, too, start the query once with skipReplayedBatches = false, or give it a new checkpoint"
    )


def warn_of_rollback(batch: WrittenBatch, remembered: WrittenBatch) -> None:
    """Say that a later micro-batch than this one was written before."""
    logger.warning(
        "millstream: micro-batch %d was written to %s after %d had been: the checkpoint was rolled back or copied, and rows may repeat",
        batch.batch_id, ", ".join(sorted(batch.topics or remembered.topics)), remembered.batch_id,
    )  # fmt: skip


def _whereabouts() -> tuple[str, int]:
    """The query and the micro-batch that this task belongs to."""
    context = TaskContext.get()
    query_id = context.getLocalProperty(QUERY_ID) if context else None
    batch_id = context.getLocalProperty(_BATCH_ID) if context else None
    assert query_id is not None, "a streaming write outside of a query"
    assert batch_id is not None, "a streaming write outside of a micro-batch"
    return query_id, int(batch_id)
