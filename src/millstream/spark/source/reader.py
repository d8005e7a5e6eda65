"""`spark.read` (`BatchReader`) and `spark.readStream` (`StreamReader`): which offsets a query reads, and what Spark keeps of that.

The offsets of a batch are fixed when it is planned, on the driver, and read by tasks.

Spark keeps the offsets of a stream in its checkpoint and asks, before each micro-batch, how far the next one may go: `latestOffset(start,
limit)`. `start` is what has been processed, and Spark asks once more after the last micro-batch of an AvailableNow run, which it never
commits: so the progress for `group.id` is committed from there. Partitions that appear while the query runs are read from their beginning;
those that disappear are lost data.

AvailableNow reads up to where the partitions ended when the run began, in micro-batches that keep to the limit.

An offset of Spark's is JSON: how far a micro-batch goes, and with the first one where it begins.

    {"not begun": {}}                                                           the start of the first micro-batch, whenever Spark asks
    {"orders": {"0": 15}, "began at": {}, "orders began at": {"0": 10}}         the end of the first micro-batch
    {"orders": {"0": 20}}                                                       the end of any later one; with `audit`, it also says
                                                                                where it begins (`source_audit`)

Spark writes the end of a micro-batch into its checkpoint before it runs it, and the end of one is the start of the next. Only the start of
the first it asks of the source: more than once, and again after a restart, and "latest" is another offset each time. So the answer to that
question is always the same, the beginning is looked up once, together with the first end, and travels inside it.

No topic has a space in its name. Every entry is a topic with partitions and offsets in its form, for those who read Spark's progress.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from millstream.errors import UnknownTopicOrPartition
from millstream.offset import EARLIEST, LATEST
from millstream.spark.group_progress import ReportedProgress
from millstream.spark.positions import AtEdge, Offsets, format_offsets, read_offsets
from millstream.spark.source.offset_ranges import OffsetRange, combine_ranges, count_offsets, limit_offsets, split_ranges
from millstream.spark.source.read_options import ReadOptions
from millstream.spark.source.read_plan import ReadPlan
from millstream.spark.source.source_offsets import SourceOffsets
from millstream.spark.worker_connections import cluster_for
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.spark.source.source_audit import SourceAudit

SparkOffset = dict[str, Any]

NOT_BEGUN: Final[SparkOffset] = {"not begun": {}}
_BEGAN_AT: Final = "began at"
_OF_TOPIC: Final = f" {_BEGAN_AT}"


class BatchReader(DataSourceReader):
    """Reads what lies between two positions."""

    def __init__(self, options: ReadOptions, plan: ReadPlan, schema: StructType) -> None:
        self._options = options
        self._plan = plan
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """A task per partition that has much to read; the others share some, or there are as many as the options ask for."""
        options = self._options
        offsets = SourceOffsets(cluster_for(options), options)
        places = offsets.partitions()
        start = offsets.starting(options.starting or AtEdge(EARLIEST), places)
        end = offsets.ending(options.ending or AtEdge(LATEST), places)
        for place in places:
            if start[place] > end[place]:
                options.report_data_loss(f"{place} is to be read from offset {start[place]} up to {end[place]}, which is before it")
        ranges = [OffsetRange(place, start[place], end[place]) for place in places]
        return plan_tasks(ranges, options)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        from millstream.spark.source.partition_reader import read_rows  # the planning process never gets here, and does not wait for numba

        return read_rows(self._options, self._plan, self._schema, partition)


class StreamOffset(NamedTuple):
    """The offset that comes next in each partition; `began_at`, of the end of the first micro-batch, has where that begins."""

    offsets: dict[TopicPartition, int]
    began_at: dict[TopicPartition, int] | None = None


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics micro-batch by micro-batch. One of them plans, beside the driver, for the whole run; tasks have copies that only
    `read`."""

    _offsets: SourceOffsets | None = None
    _progress: ReportedProgress | None = None
    _audit: "SourceAudit | None" = None
    _is_available_now = False
    _target: dict[TopicPartition, int] | None = None
    _last_trigger: float | None = None
    _last_seen: dict[TopicPartition, int] | None = None

    def __init__(self, options: ReadOptions, plan: ReadPlan, schema: StructType) -> None:
        self._options = options
        self._plan = plan
        self._schema = schema

    def initialOffset(self) -> SparkOffset:  # noqa: N802 -- Spark's name
        """Where a query without a checkpoint begins: the same answer however often Spark asks."""
        return NOT_BEGUN

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's name
        """What Spark is to pass to `latestOffset`, unless the trigger wants everything."""
        maximum, minimum = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
        if maximum is not None:
            return ReadMaxRows(maximum)
        return ReadAllAvailable() if minimum is None else ReadMinRows(minimum)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """From now on nothing counts that comes later; the end is looked up when the first micro-batch is planned."""
        self._is_available_now = True

    def latestOffset(self, start: SparkOffset, limit: ReadLimit) -> SparkOffset:  # noqa: N802 -- Spark's name
        """How far the next micro-batch goes; `start` if there is nothing for it."""
        began_at = self._starting() if start == NOT_BEGUN else None
        processed = read_stream_offset(start).offsets if began_at is None else began_at
        self._report_to_audit(start)
        latest = self._latest()
        self._report_progress(processed, existing=latest)
        self._report_deleted(processed, existing=latest)
        begin = self._begin(processed, latest)
        if self._waits_for_more(begin, latest, limit):
            latest = dict(processed)
        elif isinstance(limit, ReadMaxRows):
            latest = limit_offsets(begin, latest, limit.max_rows)
        # Spark compares texts: what is the same offset must be the same text.
        if began_at is None and latest == processed:
            return start
        return format_stream_offset(latest, began_at=begin if self._options.audit is not None and began_at is None else began_at)

    def reportLatestOffset(self) -> SparkOffset | None:  # noqa: N802 -- Spark's name
        """Where the topics end, for the progress of the query."""
        return None if self._last_seen is None else format_stream_offset(self._last_seen)

    def partitions(self, start: SparkOffset, end: SparkOffset) -> Sequence[InputPartition]:
        """The tasks of a micro-batch."""
        return plan_tasks(self.ranges(start, end), self._options)

    def ranges(self, start: SparkOffset, end: SparkOffset) -> list[OffsetRange]:
        """What a micro-batch reads of each partition; ranges may be empty."""
        until, processed = read_stream_offset(end)
        if start != NOT_BEGUN:
            processed = read_stream_offset(start).offsets
        elif processed is None:
            # Begun by a version that did not write it down: where the options say, as that one would do now.
            processed = self._starting()
        begin = self._begin(processed, until)
        ranges = []
        for place, offset in until.items():
            if offset < begin[place]:
                self._options.report_data_loss(f"{place} was read up to offset {begin[place]} and now ends at {offset}")
            ranges.append(OffsetRange(place, begin[place], offset))
        return ranges

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        from millstream.spark.source.partition_reader import read_rows  # the planning process never gets here, and does not wait for numba

        return read_rows(self._options, self._plan, self._schema, partition)

    def commit(self, end: SparkOffset) -> None:
        """Spark has processed everything up to here."""
        self._report_to_audit(end)
        if self._last_seen is not None:
            self._report_progress(read_stream_offset(end).offsets, existing=self._last_seen)

    def _starting(self) -> dict[TopicPartition, int]:
        """Where a new query begins, as of now."""
        offsets = self._source()
        return offsets.starting(self._options.starting or AtEdge(LATEST), offsets.partitions())

    def _latest(self) -> dict[TopicPartition, int]:
        """Where the partitions end, or ended when an AvailableNow run began."""
        if self._is_available_now and self._target is not None:
            return self._target
        self._last_seen = self._source().ends()
        if self._is_available_now:
            self._target = self._last_seen
        return self._last_seen

    def _report_deleted(self, known: Iterable[TopicPartition], *, existing: Offsets) -> None:
        gone = sorted(set(known).difference(existing))
        if gone:
            self._options.report_data_loss(f"{', '.join(map(str, gone))} was deleted")

    def _begin(self, processed: Offsets, until: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where to read each partition of `until` from: new ones from their beginning."""
        earliest = self._beginnings([place for place in until if place not in processed])
        for place, offset in earliest.items():
            if offset > 0:
                self._report_beginning(place, offset, processed)
        return {place: processed.get(place, earliest.get(place, end)) for place, end in until.items()}

    def _report_beginning(self, place: TopicPartition, offset: int, _processed: Offsets) -> None:
        """A partition that nothing was read of yet has lost its first messages."""
        self._options.report_data_loss(f"the new partition {place} begins at offset {offset} instead of 0")

    def _beginnings(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin, without those that are gone when a micro-batch is planned again."""
        offsets = self._source()
        try:
            return offsets.earliest(places)
        except UnknownTopicOrPartition:
            existing = offsets.ends()
            self._report_deleted(places, existing=existing)
            return offsets.earliest([place for place in places if place in existing])

    def _waits_for_more(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> bool:
        """Whether there is too little for a micro-batch, and still time to wait (`minOffsetsPerTrigger`, `maxTriggerDelay`); a trigger
        that wants everything, once or what is available now, does not wait."""
        minimum, now = self._options.min_offsets_per_trigger, monotonic()
        if self._last_trigger is None:
            self._last_trigger = now
        if minimum is not None and not self._is_available_now and not isinstance(limit, ReadAllAvailable):
            waited_ms = (now - self._last_trigger) * 1000
            if count_offsets(begin, latest) < minimum and waited_ms < self._options.max_trigger_delay_ms:
                return True
        self._last_trigger = now
        return False

    def _report_progress(self, processed: Offsets, *, existing: Offsets) -> None:
        """Commit how far the query has come, in the partitions that there are."""
        if self._options.group_id is None:
            return
        if self._progress is None:
            timeout_s = self._options.request_timeout_ms / 1000
            self._progress = ReportedProgress(cluster_for(self._options), self._options.group_id, timeout_s=timeout_s)
        self._progress.report({place: offset for place, offset in processed.items() if place in existing})

    def _report_to_audit(self, end: SparkOffset) -> None:
        """The micro-batch that ends here, and says where it began, has been processed."""
        if self._options.audit is None:
            return
        if self._audit is None:
            from millstream.spark.source.source_audit import SourceAudit  # only who takes part in the audit needs it

            self._audit = SourceAudit(self._options.audit, self._options.bootstrap_servers)
        until, began_at = read_stream_offset(end)
        self._audit.report(began_at, until)

    def _source(self) -> SourceOffsets:
        if self._offsets is None:
            self._offsets = SourceOffsets(cluster_for(self._options), self._options)
        return self._offsets


def plan_tasks(ranges: Iterable[OffsetRange], options: ReadOptions) -> list[InputPartition]:
    """Who reads what. Whoever asks for at least so many tasks does not want them combined."""
    pieces = split_ranges(ranges, at_least=options.min_partitions, at_most_records=options.max_records_per_partition)
    min_records = options.min_records_per_partition if options.min_partitions is None else 1
    return list(combine_ranges(pieces, min_records=min_records, max_records=options.max_records_per_partition))


def format_stream_offset(offsets: Offsets, *, began_at: Offsets | None = None) -> SparkOffset:
    """An offset as Spark keeps it."""
    offset: SparkOffset = format_offsets(offsets)
    if began_at is not None:
        offset[_BEGAN_AT] = {}
        offset |= {topic + _OF_TOPIC: numbers for topic, numbers in format_offsets(began_at).items()}
    return offset


def read_stream_offset(offset: Mapping[str, Mapping[str, int]]) -> StreamOffset:
    """What `format_stream_offset` wrote, perhaps in another run of the query; of `NOT_BEGUN` nothing is known."""
    offsets = read_offsets({name: numbers for name, numbers in offset.items() if " " not in name})
    if _BEGAN_AT not in offset:
        return StreamOffset(offsets)
    began_at = {name.removesuffix(_OF_TOPIC): numbers for name, numbers in offset.items() if name.endswith(_OF_TOPIC)}
    return StreamOffset(offsets, read_offsets(began_at))
