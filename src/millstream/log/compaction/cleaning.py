"""One compaction of one log, as the broker carries it out beside appends and reads.

    cleaning_extent(log, ...)     how much of the log is clean and dirty, for `cleaning_rules.is_due`
    Cleaning(log, extent, ...)    holds the order for the cleaner process
    swap_in(group)                one compacted segment takes the place of those it was made of
    complete(end_offset)          everything below the offset is compacted, to be written to the checkpoint

A cleaning that ends before it is complete leaves the log as it was, or partly compacted, which is as good. Segments may change while the
cleaner works: retention drops the oldest, a truncation cuts the last. What was made of a segment that is no longer the same must not take
its place.

All of it happens on the loop and takes a few renames. A reader that is being sent a piece of an old segment keeps its file open. Offsets
never change. One compaction of a log at a time.
"""

from pathlib import Path

from millstream.errors import StorageError
from millstream.log.compaction.cleaning_order import CleanedGroup, CleaningOrder
from millstream.log.compaction.cleaning_rules import CleanableSegment, CleaningBounds, CleaningExtent, extent_of
from millstream.log.compaction.swap import commit_swap, complete_swap
from millstream.log.config import LONG_MAX
from millstream.log.log import Log
from millstream.log.segment import TRANSACTION_INDEX_SUFFIX, Segment


def cleaning_extent(log: Log, now_ms: int, *, high_watermark: int) -> CleaningExtent:
    """The clean and the dirty part of a log, as they are now."""
    log.check_usable()
    with log.directory.guarded("looking at a log"):
        bounds = CleaningBounds(
            now_ms,
            log.log_start_offset,
            log.log_end_offset,
            # Or else the checkpoint could speak of what a crash takes; a sealed segment is flushed soon anyway.
            min(log.last_stable_offset(high_watermark), log.durable_end),
            log.directory.cleaned_offsets.get(log.topic_partition),
        )
        return extent_of([_cleanable(log, segment) for segment in log.segments], log.config, bounds)


class Cleaning:
    """A compaction under way: what was ordered, and from which segments it is made."""

    __slots__ = ("_local", "_log", "_segments", "_truncation_count", "order")

    def __init__(
        self,
        log: Log,
        extent: CleaningExtent,
        *,
        now_ms: int,
        dedupe_buffer_bytes: int,
        io_buffer_bytes: int,
        bytes_per_second: float = float("inf"),
    ) -> None:
        from millstream.log.transactions.committed_reads import aborted_in  # a broker starts sooner without it

        log.check_usable()
        segments = list(log.segments)[: extent.segment_count]
        self._log = log
        self._local = log.local
        self._truncation_count = log.truncation_count
        self._segments = {segment.base_offset: segment for segment in segments}
        self.order = CleaningOrder(
            directory=str(log.path),
            segments=[(segment.base_offset, segment.size_bytes) for segment in segments],
            end_offset=extent.end_offset,
            first_dirty_offset=extent.first_dirty_offset,
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            segment_bytes=log.config.segment_bytes,
            segment_index_bytes=log.config.segment_index_bytes,
            index_interval_bytes=log.config.index_interval_bytes,
            producers=[(entry.producer_id, entry.last_offset, entry.epoch) for entry in log.producers],
            aborted_behind=aborted_in(log, extent.end_offset, extent.end_offset),
            dedupe_buffer_bytes=dedupe_buffer_bytes,
            io_buffer_bytes=io_buffer_bytes,
            bytes_per_second=bytes_per_second,
        )

    @property
    def is_void(self) -> bool:
        """Whether the log was truncated or closed since, or moves to another disk: then nothing that comes out of it may be used."""
        return (
            self._log.local is not self._local
            or self._local.is_moving
            or self._log.is_closed
            or self._log.truncation_count != self._truncation_count
        )

    def swap_in(self, group: CleanedGroup, *, now_ms: int) -> list[Path]:
        """Put the compacted segment in the place of the old ones; their renamed files, to be unlinked later.

        StorageError if they are no longer what was compacted. The directory has to be synced before the checkpoint is written.
        """
        log, files = self._log, self._log.directory.files
        log.check_usable()
        old = [self._segments[base_offset] for base_offset in group.base_offsets]
        if self.is_void or not self._are_sealed_neighbours(old):
            raise StorageError(f"{log.topic_partition} was cut, moved or deleted while it was compacted")
        with log.directory.changing("swapping in a compacted segment"):
            base_offset = group.base_offsets[0]
            commit_swap(files, log.path, base_offset)
            marked = [path for segment in old for path in segment.mark_deleted()]
            complete_swap(files, log.path, base_offset)
            new = Segment(files, log.path, base_offset, config=log.config, created_ms=now_ms, size_bytes=group.size_bytes)
            new.has_aborted = files.exists(new.path(TRANSACTION_INDEX_SUFFIX))
            log.local.replace(old, new)
        for segment in old:
            segment.release()
        return marked

    def complete(self, end_offset: int) -> bool:
        """All groups are in their place and synced: the log is clean up to the offset; False if it was cut meanwhile."""
        if self.is_void:
            return False
        self._log.directory.cleaned_offsets[self._log.topic_partition] = end_offset
        return True

    def _are_sealed_neighbours(self, old: list[Segment]) -> bool:
        """Whether these segments still stand one after the other before the active one, as long as they were."""
        sizes = dict(self.order.segments)
        present = list(self._log.segments)[:-1]
        if old[0] not in present or any(segment.size_bytes != sizes[segment.base_offset] for segment in old):
            return False
        number = present.index(old[0])
        return present[number : number + len(old)] == old


def _cleanable(log: Log, segment: Segment) -> CleanableSegment:
    """What the rules want to know; times only where an option asks for them, because they are read from files."""
    is_sealed = segment is not log.segments.active
    largest = segment.largest.timestamp if is_sealed and log.config.min_compaction_lag_ms > 0 else -1
    first = segment.first_timestamp if is_sealed and log.config.max_compaction_lag_ms < LONG_MAX else -1
    return CleanableSegment(segment.base_offset, segment.size_bytes, largest, first)
