"""What compaction wants from a log: whether it is due, what may be touched, and the swap of what came out.

    cleaning_extent(...)      how much of the log is clean and dirty, for `cleaning_rules.is_due`
    begin_cleaning(...)       an order for the cleaner process
    swap_in(cleaning, group)  one compacted segment takes the place of those it was made of; appends and reads go on meanwhile
    complete_cleaning(...)    everything below an offset is compacted, to be written to the checkpoint
    abandon_cleaning(...)     it came to nothing: the log is as it was, or partly compacted, which is as good

All of it happens on the loop and takes a few renames. A reader that is being sent a piece of an old segment keeps its file open. Offsets
never change. One compaction at a time; a truncation ends it.
"""

from pathlib import Path

from millstream.errors import StorageError
from millstream.log.compaction.cleaning import Cleaning
from millstream.log.compaction.cleaning_order import CleanedGroup, CleaningOrder
from millstream.log.compaction.cleaning_rules import CleanableSegment, CleaningBounds, CleaningExtent, extent_of
from millstream.log.compaction.swap import commit_swap, complete_swap
from millstream.log.config import LONG_MAX
from millstream.log.kept_log import KeptLog
from millstream.log.segment import Segment


class CompactedLog(KeptLog):
    """A log whose old segments can be replaced by compacted ones."""

    @property
    def is_being_cleaned(self) -> bool:
        """Whether a compaction is under way."""
        return self._cleaning is not None

    def cleaning_extent(self, now_ms: int, *, high_watermark: int) -> CleaningExtent:
        """The clean and the dirty part, as they are now."""
        self._check_usable()
        with self.directory.guarded("looking at a log"):
            bounds = CleaningBounds(
                now_ms,
                self.log_start_offset,
                self.log_end_offset,
                # Or else the checkpoint could speak of what a crash takes; a sealed segment is flushed soon anyway.
                min(self.last_stable_offset(high_watermark), self.durable_end),
                self.directory.cleaned_offsets.get(self.topic_partition),
            )
            return extent_of([self._cleanable(segment) for segment in self._segments], self.config, bounds)

    def begin_cleaning(
        self,
        extent: CleaningExtent,
        *,
        now_ms: int,
        dedupe_buffer_bytes: int,
        io_buffer_bytes: int,
        bytes_per_second: float = float("inf"),
    ) -> Cleaning:
        """The order to compact this extent of the log."""
        self._check_usable()
        assert self._cleaning is None, "one compaction at a time"
        segments = list(self._segments)[: extent.segment_count]
        order = CleaningOrder(
            directory=str(self.path),
            segments=[(segment.base_offset, segment.size_bytes) for segment in segments],
            end_offset=extent.end_offset,
            first_dirty_offset=extent.first_dirty_offset,
            now_ms=now_ms,
            delete_retention_ms=self.config.delete_retention_ms,
            segment_bytes=self.config.segment_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            producers=[(entry.producer_id, entry.last_offset) for entry in self._producers if entry.last_offset >= 0],
            dedupe_buffer_bytes=dedupe_buffer_bytes,
            io_buffer_bytes=io_buffer_bytes,
            bytes_per_second=bytes_per_second,
        )
        self._cleaning = Cleaning(order, segments)
        return self._cleaning

    def swap_in(self, cleaning: Cleaning, group: CleanedGroup, *, now_ms: int) -> list[Path]:
        """Put the compacted segment in the place of the old ones; their renamed files, to be unlinked later.

        StorageError if they are no longer what was compacted. The directory has to be synced before the checkpoint is written.
        """
        self._check_usable()
        old = cleaning.segments_of(group.base_offsets)
        if cleaning is not self._cleaning or not self._are_sealed_neighbours(old, cleaning.order):
            raise StorageError(f"{self.topic}-{self.partition} was cut or deleted while it was compacted")
        with self.directory.guarded("swapping in a compacted segment"):
            base_offset = group.base_offsets[0]
            commit_swap(self._files, self.path, base_offset)
            marked = [path for segment in old for path in segment.mark_deleted()]
            complete_swap(self._files, self.path, base_offset)
            new = Segment(self._files, self.path, base_offset, config=self.config, created_ms=now_ms, size_bytes=group.size_bytes)
            self._segments.replace(old, new)
            self._snapshots.remove(group.base_offsets[1:])
            # A flush that moves the recovery point past the new segment has to make its name durable, too.
            self._unsynced.directories.add(self.path)
        for segment in old:
            segment.release()
        return marked

    def complete_cleaning(self, cleaning: Cleaning, *, end_offset: int) -> bool:
        """All groups are in their place and synced: the log is clean up to the offset; False if it was cut meanwhile."""
        if cleaning is not self._cleaning:
            return False
        self._cleaning = None
        self.directory.cleaned_offsets[self.topic_partition] = end_offset
        return True

    def abandon_cleaning(self, cleaning: Cleaning) -> None:
        """The compaction came to nothing."""
        if cleaning is self._cleaning:
            self._cleaning = None

    def _cleanable(self, segment: Segment) -> CleanableSegment:
        """What the rules want to know; times only where an option asks for them, because they are read from files."""
        is_sealed = segment is not self._active
        largest = segment.largest.timestamp if is_sealed and self.config.min_compaction_lag_ms > 0 else -1
        first = segment.first_timestamp if is_sealed and self.config.max_compaction_lag_ms < LONG_MAX else -1
        return CleanableSegment(segment.base_offset, segment.size_bytes, largest, first)

    def _are_sealed_neighbours(self, old: list[Segment], order: CleaningOrder) -> bool:
        """Whether these segments still stand one after the other before the active one, as long as they were."""
        sizes = dict(order.segments)
        present = list(self._segments)[:-1]
        if old[0] not in present or any(segment.size_bytes != sizes[segment.base_offset] for segment in old):
            return False
        number = present.index(old[0])
        return present[number : number + len(old)] == old
