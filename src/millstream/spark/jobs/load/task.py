"""The work of one task of a load: fetch, decode, split by hour, write, count. Only tasks import this.

A message that cannot be read makes no row. With its place and the reason it goes into a file of dead letters, which the driver produces to
a topic after the commit, or it ends the load (`fail_on_malformed`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from millstream.arrow.kernels.compiled import warn_if_slow
from millstream.arrow.kernels.record_kernel import WITH_HEADERS, WITH_KEY, WITH_VALUE
from millstream.arrow.partition_reader import PartitionReader
from millstream.arrow.record_buffers import RecordBuffers
from millstream.audit.reports.report import DEFAULT_BUCKET_MS
from millstream.lake.bucket_counts import BucketCount, PartitionCounts
from millstream.lake.errors import LoadConflict
from millstream.lake.hour_files import HourFiles, hours_of
from millstream.lake.load_batch import LoadedRange
from millstream.lake.place import finished_or_deleted, open_place
from millstream.spark.jobs.load.dead_letters import DeadLetterFile
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.table_rows import TopicDecoder
from millstream.spark.jobs.load.tables import table_address
from millstream.spark.jobs.load.task_result import TableResult, TaskResult, TopicResult
from millstream.spark.source.offset_ranges import OffsetRange
from millstream.spark.source.read_options import ReadOptions
from millstream.spark.worker_connections import cluster_for

if TYPE_CHECKING:
    from millstream.spark.jobs.load.files_as_rows import LoadTask


def load_files(options: ReadOptions, settings: LoadSettings, task: "LoadTask") -> TaskResult:
    """Write the files of a task; what it could not finish it deletes."""
    warn_if_slow()
    work = _TaskWork(options, settings, task)
    try:
        with finished_or_deleted(work.abandon, settings.to):
            for offsets in task.ranges:
                work.load(offsets)
            return work.finish()
    finally:
        work.close()


class _TaskWork:
    """What a task has in its hands."""

    def __init__(self, options: ReadOptions, settings: LoadSettings, task: "LoadTask") -> None:
        self._options = options
        self._settings = settings
        self._task = task
        topics = {offsets.place.topic for offsets in task.ranges}
        self._plans = [plan for plan in task.plans if plan.topic in topics]
        self._decoders = {topic: TopicDecoder(settings, [plan for plan in self._plans if plan.topic == topic]) for topic in topics}
        self._files = {plan.table: HourFiles(open_place(table_address(settings.to, plan.table)), plan.files) for plan in self._plans}
        self._dead = {topic: DeadLetterFile(settings.checkpoint) for topic in topics}
        self._counts: dict[str, list[BucketCount]] = {topic: [] for topic in topics}
        self._progress_ms = dict.fromkeys(topics, task.planned_ms)

    def load(self, offsets: OffsetRange) -> None:
        """One range of one partition."""
        place = offsets.place
        counts, last_ms = PartitionCounts(place.partition, DEFAULT_BUCKET_MS), self._task.planned_ms
        for records in self._records(offsets):
            is_malformed = np.zeros(records.rows, np.bool_)
            for table in self._decoders[place.topic].decode(records, place):
                if table.malformed is not None:
                    is_malformed |= table.malformed.is_malformed
                    self._dead[place.topic].add(place, records, table.malformed)
                if table.rows.num_rows:
                    self._files[table.table].write(table.rows, hours_of(table.timestamps_us))
            counts.add(records.offsets(), records.timestamps_us(), _sizes(records), is_malformed)
            last_ms = int(records.timestamps_us()[-1]) // 1000 if records.rows else last_ms
        self._counts[place.topic] += counts.counts()
        if place in self._task.behind:
            self._progress_ms[place.topic] = min(self._progress_ms[place.topic], last_ms)

    def finish(self) -> TaskResult:
        """Complete all files."""
        self._check_topics()
        tables = {plan.table: TableResult(plan.topic, tuple(self._files[plan.table].close()), plan.files) for plan in self._plans}
        topics = {
            topic: TopicResult(
                topic_id=self._task.topic_ids.get(topic),
                ranges=tuple(LoadedRange(one.place.partition, one.start, one.end) for one in self._task.ranges if one.place.topic == topic),
                counts=tuple(self._counts[topic]),
                dead_letters=self._dead[topic].close(),
                progress_ms=self._progress_ms[topic],
                is_behind=any(place.topic == topic for place in self._task.behind),
            )
            for topic in self._decoders
        }
        return TaskResult(topics, tables)

    def abandon(self) -> None:
        """Delete what was written."""
        for files in self._files.values():
            files.abandon()
        for dead in self._dead.values():
            dead.abandon()

    def close(self) -> None:
        """Close connections."""
        for decoder in self._decoders.values():
            decoder.close()

    def _check_topics(self) -> None:
        """Raises `LoadConflict` if a topic was made anew while it was read: its offsets mean other messages now."""
        if not self._task.topic_ids:
            return
        now = cluster_for(self._options).refresh(self._task.topic_ids).topics
        for topic, topic_id in self._task.topic_ids.items():
            if topic not in now or str(now[topic].topic_id) != topic_id:
                raise LoadConflict(
                    f"the topic {topic} was deleted or created again while it was read: nothing of this micro-batch is in the table. If it "
                    "is there again, load it to another place (--to) with a new checkpoint."
                )

    def _records(self, offsets: OffsetRange) -> Iterator[RecordBuffers]:
        wanted = WITH_KEY + WITH_VALUE + (WITH_HEADERS if self._settings.headers else 0)
        return PartitionReader(cluster_for(self._options), self._options, offsets, wanted=wanted).read()


def _sizes(records: RecordBuffers) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Bytes of key and value of each record."""
    sizes: np.ndarray[tuple[int], np.dtype[np.int64]] = np.diff(records.keys().offsets).astype(np.int64) + np.diff(records.values().offsets)
    return sizes
