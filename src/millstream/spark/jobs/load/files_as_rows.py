"""A streaming source whose rows are files: tasks fetch, decode and write Parquet themselves, and hand a description to the driver.

Checkpoint, AvailableNow, limits and retries stay Spark's, and so do offsets: the reader is that of `format("millstream")`. Only its rows
are others, one per task (`TaskResult`, as JSON), so the data never enter the JVM, which would cost more than all the rest. The driver
collects the descriptions and commits (`commit`).

Small partitions share a task: a task costs Spark some tens of milliseconds however little it reads, and each makes files of its own. A
large one is split, so that every core has its share.
"""

import heapq
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.options import FieldOptions
from millstream.spark.positions import Offsets
from millstream.spark.source.offset_ranges import OffsetRange, split_ranges
from millstream.spark.source.read_options import ReadOptions, check_stream_options, parse_read_options
from millstream.spark.source.read_plan import ReadField, ReadPlan
from millstream.spark.source.reader import SparkOffset, StreamReader, read_stream_offset
from millstream.spark.worker_connections import cluster_for
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.spark.jobs.load.table_plan import TablePlan, TablePlanner

logger = logging.getLogger(__name__)

FORMAT: Final = "millstream-load"
SETTINGS: Final = "load"
TASKS: Final = "tasks"
CATALOG: Final = "catalog."
"""Begins the names of a catalog's properties: options of their own, because Spark hides those that look like secrets."""
COLUMN: Final = "written"
_KAFKA: Final = "kafka."
SCHEMA: Final = f"{COLUMN} STRING"
SMALLEST_TASK: Final = 20_000
"""Offsets that are not worth a task of their own."""
_RAW: Final = ReadPlan(ReadField(FieldOptions()), ReadField(FieldOptions()), "FAILFAST", None)


@dataclass(frozen=True)
class LoadTask(InputPartition):
    """What one task reads, and how rows are made of it."""

    ranges: "tuple[OffsetRange, ...]"
    plans: "tuple[TablePlan, ...]"
    topic_ids: Mapping[str, str]
    planned_ms: int
    """When it was asked where the topics end."""
    behind: frozenset[TopicPartition] = frozenset()
    """The partitions that had more then than the micro-batch takes."""


class LoadSource(DataSource):
    """`format("millstream-load")`: topics as files of tables; registered by `load.start_load`, and of use to nothing else."""

    reader_class: "type[LoadReader]"

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return FORMAT

    def schema(self) -> str:
        """One text per task."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's name
        """The reader of a load; Spark passes the names of options in lower case."""
        options = parse_read_options({name: value for name, value in self.options.items() if not _is_own(name)})
        check_stream_options(options)
        return self.reader_class(options, settings_of(self.options), schema, tasks=int(self.options[TASKS]))


class LoadReader(StreamReader):
    """Plans micro-batches as `StreamReader` does, and writes files where that one builds rows."""

    _planner: "TablePlanner | None" = None
    _seen_ms = 0
    """When it was asked where the topics end."""

    def __init__(self, options: ReadOptions, settings: LoadSettings, schema: StructType, *, tasks: int) -> None:
        super().__init__(options, _RAW, schema)
        self._settings = settings
        self._tasks = tasks

    def partitions(self, start: SparkOffset, end: SparkOffset) -> Sequence[InputPartition]:
        """The tasks of a micro-batch; the schemas are looked up now that its end is known."""
        ranges = split_ranges(self.ranges(start, end))
        if not ranges:
            return []
        plans = self._plans()
        topic_ids = self._topic_ids({one.place.topic for one in ranges})
        behind = self._behind(read_stream_offset(end).offsets)
        shares = share_ranges(ranges, self._tasks)
        return [LoadTask(tuple(share), plans, topic_ids, self._seen_ms, behind) for share in shares]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Write the files of a task; one row describes them."""
        import pyarrow as pa  # the planning process never gets here

        from millstream.spark.jobs.load.task import load_files

        if isinstance(partition, LoadTask):
            yield pa.record_batch({COLUMN: [load_files(self._options, self._settings, partition).text()]})

    def _starting(self) -> dict[TopicPartition, int]:
        """A new checkpoint goes on where the tables end, and begins where the options say only what they do not have."""
        return {**super()._starting(), **self._in_tables()}

    def _in_tables(self) -> Offsets:
        from millstream.spark.jobs.load.tables import positions_in_tables

        return positions_in_tables(self._settings, self._plans(), self._source().partitions())

    def _report_beginning(self, place: TopicPartition, offset: int, processed: Offsets) -> None:
        """A topic that was added to the load begins where it begins now, as in a new load; a partition that was added to a topic has lost
        messages that were to be loaded."""
        if any(known.topic == place.topic for known in processed):
            super()._report_beginning(place, offset, processed)
        else:
            logger.warning("the load of %s begins at offset %d, the first that there is: those before it were deleted", place, offset)

    def _latest(self) -> dict[TopicPartition, int]:
        known, now_ms = self._last_seen, int(time() * 1000)
        latest = super()._latest()
        if self._last_seen is not known:
            self._seen_ms = now_ms
        return latest

    def _behind(self, until: Offsets) -> frozenset[TopicPartition]:
        """The partitions that have more than the micro-batch, which goes `until` there."""
        if self._last_seen is None:
            # A micro-batch that is run again: Spark has not asked for the end before.
            self._latest()
        return frozenset(place for place, end in (self._last_seen or {}).items() if end > until.get(place, 0))

    def _plans(self) -> "tuple[TablePlan, ...]":
        from millstream.spark.jobs.load.table_plan import TablePlanner

        if self._planner is None:
            self._planner = TablePlanner(self._settings)
        return self._planner.plans()

    def _topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        cluster = cluster_for(self._options)
        found = {topic: cluster.topic(topic).topic_id for topic in topics}
        return {topic: str(topic_id) for topic, topic_id in found.items() if topic_id is not None}


LoadSource.reader_class = LoadReader


def load_options(settings: LoadSettings) -> dict[str, str]:
    """A load as options of Spark's, with what may be secret in options of their own, which Spark hides."""
    return {
        **{_KAFKA + name: value for name, value in settings.kafka.items()},
        **{CATALOG + name: value for name, value in settings.catalog.items()},
        SETTINGS: settings.document(),
    }


def settings_of(options: Mapping[str, str]) -> LoadSettings:
    """The load that such options describe."""
    catalog, kafka = (
        {name[len(part) :]: value for name, value in options.items() if name.lower().startswith(part)} for part in (CATALOG, _KAFKA)
    )
    kafka.pop("bootstrap.servers", None)
    return LoadSettings.of(options[SETTINGS], catalog=catalog, kafka=kafka)


def _is_own(option: str) -> bool:
    return option.lower() in {SETTINGS, TASKS} or option.lower().startswith(CATALOG)


def share_ranges(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """The ranges of each of at most so many tasks, of about the same size: large ranges are split, small ones share a task."""
    total = sum(one.size for one in ranges)
    wanted = max(min(tasks, total // SMALLEST_TASK), 1)
    largest = max(-(-total // wanted), 1)
    pieces = split_ranges(ranges, at_most_records=largest)
    shares: list[tuple[int, int, list[OffsetRange]]] = [(0, number, []) for number in range(wanted)]
    for piece in sorted(pieces, key=lambda piece: piece.size, reverse=True):
        size, number, share = heapq.heappop(shares)
        share.append(piece)
        heapq.heappush(shares, (size + piece.size, number, share))
    return [sorted(share) for _, _, share in sorted(shares) if share]
