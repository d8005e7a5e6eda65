"""A streaming sink whose rows become rows of a load's table: tasks write Parquet files, the driver commits them.

This is how a load with SQL in between ends. Spark makes a `TableWriter` for every micro-batch, and copies of it write the rows of each
task; `commit` gets what they have written, and knows the offsets from the checkpoint (`batch_offsets`). So a micro-batch that comes again
is left out, and one that does not continue the table is refused, as with any load. Files of a micro-batch whose tasks failed are deleted
by `abort`; those of a killed task, or of a commit that failed, by `maintain`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from millstream.lake.data_file import DataFile
from millstream.spark.jobs.load.files_as_rows import settings_of
from millstream.spark.jobs.load.settings import LoadSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.client.cluster import Cluster
    from millstream.lake.load_batch import LoadBatch, LoadedRange

FORMAT: Final = "millstream-table"
_NEXT_REPORT_MS: Final = 60_000
"""How long a micro-batch may take, beside the time between two of them, before the audit takes a load with a backlog for dead."""


@dataclass(frozen=True)
class FilesWritten(WriterCommitMessage):
    """The files of one task."""

    files: tuple[DataFile, ...]


class TableSink(DataSource):
    """`format("millstream-table")`: registered by `sql_load.start_sql_load`, and of use to nothing else."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 -- Spark's name
        """The writer of a micro-batch."""
        return TableWriter(settings_of(self.options), schema)


class TableWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch."""

    def __init__(self, settings: LoadSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> FilesWritten:
        """Write the files of one task."""
        from millstream.spark.jobs.load.result_rows import write_result_files  # only tasks need it

        return FilesWritten(write_result_files(self._settings, self._columns(), iterator))

    def commit(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Make the files rows of the table, or delete them if it has the micro-batch."""
        from millstream.spark.jobs.load.audit import report_batch
        from millstream.spark.jobs.load.tables import commit_once, load_table

        batch = self._batch(batchId, _files(messages))
        commit_once(load_table(self._settings, batch.topic), batch, self._columns())
        next_report_ms = self._settings.every_ms + _NEXT_REPORT_MS
        report_batch(self._settings, batch.query_id, batchId, {batch.topic: batch}, next_report_ms=next_report_ms)

    def abort(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Delete the files of the tasks that did write, unless all did: then the commit failed, perhaps after the table had it."""
        from millstream.spark.jobs.load.tables import delete_files, table_address

        if None not in messages:
            return
        delete_files(table_address(self._settings.to, self._settings.topics[0]), _files(messages))

    def _columns(self) -> "pa.Schema":
        from millstream.spark.jobs.load.result_rows import result_columns

        return result_columns(self._schema, self._settings.event_time)

    def _batch(self, batch_id: int, files: tuple[DataFile, ...]) -> "LoadBatch":
        from millstream.audit.reports.report import ANY_BUCKET
        from millstream.lake.bucket_counts import BucketCount
        from millstream.lake.load_batch import LoadBatch
        from millstream.spark.jobs.load.batch_offsets import query_id_at, ranges_of
        from millstream.spark.jobs.load.brokers import open_cluster

        [topic] = self._settings.topics
        ranges = ranges_of(self._settings.checkpoint, batch_id, topic)
        # The messages that were read, whatever the query made of them; their times are not known here.
        counts = [BucketCount(one.partition, ANY_BUCKET, one.end - one.start, 0, 0, (one.start, one.end)) for one in ranges]
        now_ms = int(time() * 1000)
        with open_cluster(self._settings) as cluster:
            topic_id = cluster.topic(topic).topic_id
            # Only the audit asks for it.
            is_behind = self._settings.audit is not None and _is_behind(cluster, topic, ranges)
        return LoadBatch(
            query_id=query_id_at(self._settings.checkpoint),
            batch_id=batch_id,
            topic=topic,
            topic_id=str(topic_id) if topic_id is not None else None,
            ranges=ranges,
            counts=tuple(counts),
            files=files,
            progress_ms=None if self._settings.audit is None else 0 if is_behind else now_ms,
            is_behind=is_behind,
        )


def _is_behind(cluster: "Cluster", topic: str, ranges: "Sequence[LoadedRange]") -> bool:
    from millstream.offset import LATEST
    from millstream.topic_partition import TopicPartition

    ends = cluster.offsets({TopicPartition(topic, one.partition): LATEST for one in ranges})
    return any(ends[TopicPartition(topic, one.partition)].offset > one.end for one in ranges)


def _files(messages: "Sequence[WriterCommitMessage | None]") -> tuple[DataFile, ...]:
    return tuple(file for message in messages if isinstance(message, FilesWritten) for file in message.files)
