"""The driver's part of a load: what the tasks of a micro-batch have written becomes rows, all of it or nothing of a table.

In this order, because each step may be the last before a crash, after which Spark runs the micro-batch again with the same offsets:
1. each table is committed, and refuses what it has already; files that the repetition wrote for nothing are deleted;
2. dead letters are produced, perhaps twice;
3. the counts are reported to the audit, which knows a report that comes twice;
4. Spark writes its checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from millstream.audit.reports.report import ANY_BUCKET, DEFAULT_INTERVAL_MS
from millstream.lake.bucket_counts import BucketCount
from millstream.lake.load_batch import LoadBatch, joined
from millstream.lake.load_table import LoadTable
from millstream.spark.jobs.load.audit import report_batch
from millstream.spark.jobs.load.dead_letters import produce_dead_letters
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.tables import commit_once, load_table
from millstream.spark.jobs.load.task_result import TaskResult, tables_of
from millstream.spark.jobs.running.batch_progress import BatchCounts
from millstream.spark.query_id import query_id_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class LoadCommitter:
    """Commits the micro-batches of one load."""

    def __init__(self, settings: LoadSettings, progress: BatchCounts) -> None:
        self._settings = settings
        self._progress = progress
        self._reported_at = monotonic()

    def __call__(self, rows: "DataFrame", batch_id: int) -> None:
        """What `foreachBatch` calls."""
        results = [TaskResult.of(row[0]) for row in rows.collect()]
        self.finish(results, query_id_of(rows), batch_id)

    def finish(self, results: Sequence[TaskResult], query_id: str, batch_id: int) -> None:
        """Everything that is to be done with the work of the tasks; there are none where all topics are empty."""
        batches = batches_of(results, query_id, batch_id)
        self.commit(results, batches)
        self.send_dead_letters(results)
        self.report(query_id, batch_id, batches)
        counted = [count for batch in batches.values() for count in batch.counts]
        malformed = sum(count.malformed for count in counted if count.bucket != ANY_BUCKET)
        rows = sum(file.rows for result in results for table in result.tables.values() for file in table.files)
        self._progress.note(batch_id, rows, malformed=malformed)

    def commit(self, results: Sequence[TaskResult], batches: Mapping[str, LoadBatch]) -> None:
        """Commit each table."""
        for name, table in tables_of(results).items():
            self.commit_table(load_table(self._settings, name), replace(batches[table.topic], files=table.files), table.schema)

    def commit_table(self, table: LoadTable, batch: LoadBatch, schema: "pa.Schema") -> None:
        """Commit one table; the files of a micro-batch that it has already are deleted."""
        commit_once(table, batch, schema)

    def send_dead_letters(self, results: Sequence[TaskResult]) -> None:
        """Produce what could not be read."""
        names: dict[str, list[str]] = {}
        for result in results:
            for topic, one in result.topics.items():
                if one.dead_letters is not None:
                    names.setdefault(topic, []).append(one.dead_letters)
        for topic, files in names.items():
            produce_dead_letters(self._settings, topic, files)

    def report(self, query_id: str, batch_id: int, batches: Mapping[str, LoadBatch]) -> None:
        """Report the counts; where there is a backlog the next micro-batch takes about as long as this one did."""
        now = monotonic()
        next_report_ms = round(2000 * (now - self._reported_at)) + self._settings.every_ms + DEFAULT_INTERVAL_MS
        self._reported_at = now
        report_batch(self._settings, query_id, batch_id, batches, next_report_ms=next_report_ms)


def batches_of(results: Sequence[TaskResult], query_id: str, batch_id: int) -> dict[str, LoadBatch]:
    """The micro-batch of each topic, put together from the tasks."""
    batches = {}
    for topic in sorted({topic for result in results for topic in result.topics}):
        parts = [result.topics[topic] for result in results if topic in result.topics]
        counts: list[BucketCount] = [count for part in parts for count in part.counts]
        batches[topic] = LoadBatch(
            query_id,
            batch_id,
            topic,
            parts[0].topic_id,
            joined([one for part in parts for one in part.ranges]),
            tuple(counts),
            progress_ms=min((part.progress_ms for part in parts if part.progress_ms is not None), default=None),
            is_behind=any(part.is_behind for part in parts),
        )
    return batches
