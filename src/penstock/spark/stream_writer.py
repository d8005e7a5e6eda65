"""The streaming sink: `df.writeStream.format("penstock")`.

At least once, as Spark's own sink, but a micro-batch that was committed and is replayed is not written again (see `sink_progress`). Spark
makes the writer anew for every micro-batch and once more for its commit; what a task has written travels from `write` to `commit` in a
message, and with it the id of the query, which only tasks can see.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark.sink_options import plan_sink
from penstock.spark.sink_progress import SinkProgress
from penstock.spark.worker_clusters import worker_cluster

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True)
class BatchWritten(WriterCommitMessage):
    """What one task has written of a micro-batch."""

    query_id: str
    topics: frozenset[str]
    row_count: int


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches to topics."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._plan = plan_sink(options, schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> BatchWritten:
        """Write the rows of one task, unless this micro-batch is written already."""
        from penstock.spark.task_writer import write_rows  # brings numba along, which a commit does not need

        query_id, batch_id = _whereabouts()
        if self._plan.skips_replayed_batches and batch_id <= self._progress(query_id).last_written():
            return BatchWritten(query_id, frozenset(), 0)
        written = write_rows(self._plan, iterator)
        return BatchWritten(query_id, written.topics, written.row_count)

    def commit(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Remember that the micro-batch is written."""
        written = [message for message in messages if isinstance(message, BatchWritten)]
        topics = frozenset[str]().union(*(message.topics for message in written))
        # Nothing was written: it was a replay, or there were no rows, of which a replay does no harm.
        if topics and self._plan.skips_replayed_batches:
            self._progress(written[0].query_id).remember(batchId, topics)

    def _progress(self, query_id: str) -> SinkProgress:
        settings = self._plan.producer
        cluster = worker_cluster(settings.bootstrap_servers, client_id=settings.client_id, request_timeout_ms=settings.request_timeout_ms)
        return SinkProgress(cluster, query_id, timeout_s=settings.request_timeout_ms / 1000)


def _whereabouts() -> tuple[str, int]:
    """The query and the micro-batch that this task belongs to."""
    context = TaskContext.get()
    query_id = context.getLocalProperty(_QUERY_ID) if context else None
    batch_id = context.getLocalProperty(_BATCH_ID) if context else None
    assert query_id is not None, "a streaming write outside of a query"
    assert batch_id is not None, "a streaming write outside of a micro-batch"
    return query_id, int(batch_id)
