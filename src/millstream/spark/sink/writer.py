"""`df.write` and `INSERT INTO` of SQL (`BatchWriter`), and `df.writeStream` (`StreamWriter`).

Spark makes one writer on the driver, for a stream anew for every micro-batch and once more for its commit, and unpickled copies of it write
the rows of each task. Rows of a task that failed stay where they are, and its next attempt writes them again: at least once, as with
Spark's own sink.

With `delivery.guarantee` = exactly-once each attempt of a task writes in a transaction of its own and leaves it open; the driver ends those
of the attempts that Spark took, and fences the others (`exactly_once.batch_commit`).

But a micro-batch that was committed and is replayed is not written again (see `sink_progress`). Each task of a stream asks what is
remembered before it writes. If that is the id of its own micro-batch it writes nothing and only computes the digest of its rows; the commit
compares the sum with what was written, and ends the query if it is something else. What a task has written travels from `write` to `commit`
in a message, and with it the id of the query and what was remembered of it, which only tasks can see.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from millstream.batch_memory import batch_memory_of
from millstream.client.raw_producer import ProducerSettings
from millstream.client.transactions import OpenTransaction
from millstream.errors import MillstreamError, UnstableOffsetCommit, UsageError
from millstream.spark.exactly_once.batch_commit import BatchCommit, PartlyCommitted
from millstream.spark.exactly_once.driver import Driver, TakenOver, taken_over
from millstream.spark.exactly_once.transaction_pool import TransactionPool
from millstream.spark.options import OptionError
from millstream.spark.query_id import QUERY_ID
from millstream.spark.sink.producer_options import DEFAULT_TRANSACTION_TIMEOUT_MS
from millstream.spark.sink.sink_audit import SinkCount, publish_counts
from millstream.spark.sink.sink_progress import SinkProgress, WrittenBatch, transaction_pool
from millstream.spark.sink.write_plan import plan_write
from millstream.spark.worker_connections import await_brokers, begins, cluster_for, transaction_admin_for, transactions_for

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_BATCH_ID: Final = "streaming.sql.batchId"
_DIGESTS: Final = 1 << 64
_PATIENCE_S: Final = 1.0
"""How long a task waits for a record that is being stored; that takes a few milliseconds."""


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """What one task has written."""

    row_count: int
    counts: tuple[SinkCount, ...] = ()
    transaction: OpenTransaction | None = None


class BatchWriter(DataSourceArrowWriter):
    """Writes rows to topics."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("mode", "a topic cannot be overwritten, only appended to: write with mode append")
        self._plan = plan_write(options, schema)
        self._pool = TransactionPool(f"millstream-write-{uuid4()}") if self._plan.producer.is_transactional else None

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> RowsWritten:
        """Write the rows of one task."""
        from millstream.spark.sink.task_writer import write_rows  # brings numba along, which the driver does not need

        written = write_rows(self._plan, iterator, transactional_id=_id_from(self._pool))
        return RowsWritten(written.row_count, written.counts, written.transaction)

    def commit(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        """Every task has written its rows."""
        written = [message for message in messages if isinstance(message, RowsWritten)]
        transactions = batch_commit(self._plan.producer, _opened(written))
        transactions.prepare()
        publish_counts(self._plan, written, batch=str(uuid4()))
        transactions.finish(
            what=f"the write to {self._plan.topic or 'the topics of its rows'}",
            advice="Write what is missing, or all of it again if rows may be there twice",
        )

    def abort(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        """A task has failed for good, or the commit has: what is open then is committed by no one, also of tasks that were killed."""
        if self._pool is None:
            return
        try:
            await_brokers(self._plan.producer)
            batch_commit(self._plan.producer, ()).fence(self._pool)
        except MillstreamError as error:
            warn_of_open(error)


class ReplayDiffers(UsageError):
    """A micro-batch comes again with other rows than those that were written under its id."""


class UnfinishedBatch(UsageError):
    """A micro-batch comes after one that was decided and never came again to be committed."""


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
    transaction: OpenTransaction | None = None


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches to topics."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._plan = plan_write(options, schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> BatchWritten:
        """Write the rows of one task, unless this micro-batch is written already."""
        from millstream.spark.sink.task_writer import digest_rows, write_rows  # brings numba along, which a commit does not need

        query_id, batch_id = _whereabouts()
        if not self._remembers_batches:
            written = write_rows(self._plan, iterator)
            return BatchWritten(query_id, written.topics, written.row_count, counts=written.counts)
        remembered = self._find_remembered(query_id)
        if self._plan.skips_replayed_batches:
            check_finished(remembered, batch_id)
        is_replay = self._plan.skips_replayed_batches and remembered is not None and remembered.batch_id == batch_id
        if is_replay:
            written = digest_rows(self._plan, iterator)
        else:
            pool = transaction_pool(query_id, self._plan.topic) if self._plan.producer.is_transactional else None
            written = write_rows(self._plan, iterator, with_digest=True, transactional_id=_id_from(pool))
        return BatchWritten(
            query_id, written.topics, written.row_count, written.digest, is_replay, remembered, written.counts, written.transaction
        )

    def commit(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Remember that the micro-batch is written."""
        written = [message for message in messages if isinstance(message, BatchWritten)]
        if not written or not self._remembers_batches:
            publish_counts(self._plan, written, batch=str(uuid4()))
            return
        batch, remembered = add_up(written, batchId, tier=self._plan.audit.tier if self._plan.audit is not None else None)
        if any(message.is_replay for message in written):
            assert remembered is not None
            self._finish_decided(remembered, written[0].query_id)
            self._batch_commit(batch).abort()
            check_replay(batch, remembered, is_whole=all(message.is_replay for message in written))
            return
        if remembered is not None and remembered.batch_id > batch.batch_id:
            warn_of_rollback(batch, remembered)
            # Also without rows: what comes later under the remembered id is not what was written under it.
            batch = batch._replace(topics=batch.topics or remembered.topics)
        # Without rows there is nothing that a replay could repeat.
        if batch.topics:
            driver = self._take_over(batch, written) if self._plan.producer.is_transactional else None
            self._batch_commit(batch).prepare()
            # Before the batch is remembered: a replay that comes in between writes its rows again, and they are duplicates then.
            publish_counts(self._plan, written, batch=f"{written[0].query_id}/{batch.run}", number=batch.report)
            self._progress(written[0].query_id).remember(batch, driver)
            if driver is not None:
                self._finish(batch, written[0].query_id, driver)

    def abort(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 -- Spark's name
        """A task has failed for good, or the commit has: then the micro-batch may be decided, and its replay ends it."""
        abort_unless_all_wrote(self._plan.producer, messages)

    @property
    def _remembers_batches(self) -> bool:
        return self._plan.skips_replayed_batches or self._plan.producer.is_transactional

    def _batch_commit(self, batch: WrittenBatch) -> BatchCommit:
        return batch_commit(self._plan.producer, batch.transactions)

    def _find_remembered(self, query_id: str) -> WrittenBatch | None:
        """What a task finds. The first one of a process fences a driver that is still about to decide, before it aborts what that one has
        open; later ones only if such a driver has stopped in the middle."""
        progress, driver = self._progress(query_id), self._driver(query_id)
        if self._plan.producer.is_transactional:
            await_brokers(self._plan.producer)
        if self._plan.producer.is_transactional and _is_first_attempt() and begins(batch_memory_of(query_id, self._plan.topic)):
            driver.take_over()
        try:
            return progress.last_written(patience_s=_PATIENCE_S)
        except UnstableOffsetCommit:
            driver.take_over()
            return progress.last_written()

    def _take_over(self, batch: WrittenBatch, written: Sequence[BatchWritten]) -> Driver:
        """From here on no other driver decides, or this one is fenced; raises `TakenOver` if one has since the tasks looked."""
        driver, progress = self._driver(written[0].query_id), self._progress(written[0].query_id)
        try:
            # Also before it takes over: a driver that is too late does not disturb the one that has decided.
            check_unchanged(written, progress.last_written())
            driver.take_over()
            check_unchanged(written, progress.last_written())
        except TakenOver:
            self._batch_commit(batch).abort()
            raise
        return driver

    def _finish_decided(self, decided: WrittenBatch, query_id: str) -> None:
        """It was decided, in whatever mode this query runs now."""
        if not decided.transactions:
            return
        driver = self._driver(query_id)
        driver.take_over()
        now = self._progress(query_id).last_written()
        if not decided.is_same(now):
            raise taken_over(f"the micro-batch {decided.batch_id} is not the last one that was committed")
        self._finish(decided, query_id, driver)

    def _finish(self, batch: WrittenBatch, query_id: str, driver: Driver) -> None:
        """Commit the transactions of a decided micro-batch; then it is remembered as one that is written."""
        if not batch.transactions:
            return
        try:
            self._batch_commit(batch).finish(
                what=f"the micro-batch {batch.batch_id}",
                advice="If another query has run from this checkpoint, look first whether its rows are on the topic. "
                "To write all of its rows once more, those that are committed a second time, start the query once with "
                "skipReplayedBatches = false; to leave out what is lost, let it go on behind these rows with a new checkpoint",
            )
        except PartlyCommitted:
            check_unfinished(batch, self._progress(query_id).last_written())
            raise
        # So that nothing depends on what coordinators still know when it comes again.
        self._progress(query_id).remember(batch._replace(transactions=()), driver)

    def _driver(self, query_id: str) -> Driver:
        settings = self._plan.producer
        timeout_ms = settings.transaction_timeout_ms or DEFAULT_TRANSACTION_TIMEOUT_MS
        return Driver(transactions_for(settings), transaction_pool(query_id, self._plan.topic).driver_id, timeout_ms=timeout_ms)

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
        transactions=tuple(_opened(written)),
    )
    return batch.after(remembered, tier=tier), remembered


def check_unchanged(written: Sequence[BatchWritten], now: WrittenBatch | None) -> None:
    """Whether all tasks have seen what is remembered now; raises if not."""
    for message in written:
        seen = message.remembered
        if seen is None and now is None:
            continue
        if seen is None or not seen.is_same(now):
            last = f"the micro-batch {now.batch_id} was committed" if now is not None else "what was committed last was forgotten"
            raise taken_over(f"{last} while this one wrote another")


def check_unfinished(batch: WrittenBatch, now: WrittenBatch | None) -> None:
    """Whether a micro-batch whose transactions have ended without this driver is still to be committed; raises if another has done it."""
    if not batch.is_same(now) or (now is not None and not now.transactions):
        raise taken_over(f"it has committed the micro-batch {batch.batch_id}")


def check_finished(remembered: WrittenBatch | None, batch_id: int) -> None:
    """Whether a micro-batch may follow the one that is remembered; raises if that was decided and is not committed."""
    if remembered is not None and remembered.transactions and batch_id > remembered.batch_id:
        raise UnfinishedBatch(
            f"the micro-batch {remembered.batch_id} with {remembered.row_count} rows was decided, but not all of its transactions are "
            f"committed, and now {batch_id} comes without it: its rows would be lost. Go back to the checkpoint whose next micro-batch is "
            f"{remembered.batch_id}, and start the query again before kafka.transaction.timeout.ms is over; to go on without these rows, "
            "start it once with skipReplayedBatches = false"
        )


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


def _opened(written: "Iterable[RowsWritten | BatchWritten]") -> list[OpenTransaction]:
    return [message.transaction for message in written if message.transaction is not None]


def batch_commit(settings: ProducerSettings, opened: Sequence[OpenTransaction]) -> BatchCommit:
    """How these transactions are ended; without any it does nothing, and asks no broker."""
    timeout_ms = settings.transaction_timeout_ms or DEFAULT_TRANSACTION_TIMEOUT_MS
    return BatchCommit(transactions_for(settings), transaction_admin_for(settings), opened, timeout_ms=timeout_ms)


def abort_unless_all_wrote(settings: ProducerSettings, messages: "Sequence[WriterCommitMessage | None]") -> None:
    """Abort the transactions of a micro-batch of which a task has failed. If none has, Spark has begun the commit: what is decided stays
    so, and what is not is ended by the next attempt or by its time-out."""
    written = [message for message in messages if isinstance(message, BatchWritten)]
    if len(written) == len(messages):
        return
    try:
        batch_commit(settings, _opened(written)).abort()
    except MillstreamError as error:
        warn_of_open(error)


def warn_of_open(error: MillstreamError) -> None:
    """Say that readers of committed data have to wait."""
    logger.warning("millstream: the transactions of a failed write stay open until they time out: %s", error)


def _is_first_attempt() -> bool:
    """Whether Spark runs no other attempt of this task, so that the driver cannot be in its commit."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() == 0


def _id_from(pool: TransactionPool | None) -> str | None:
    """The id of this attempt of this task."""
    context = TaskContext.get()
    return pool.id_of(context.partitionId(), context.attemptNumber()) if pool is not None and context is not None else None


def _whereabouts() -> tuple[str, int]:
    """The query and the micro-batch that this task belongs to."""
    context = TaskContext.get()
    query_id = context.getLocalProperty(QUERY_ID) if context else None
    batch_id = context.getLocalProperty(_BATCH_ID) if context else None
    assert query_id is not None, "a streaming write outside of a query"
    assert batch_id is not None, "a streaming write outside of a micro-batch"
    return query_id, int(batch_id)
