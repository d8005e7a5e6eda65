"""Which logs are due for compaction, how far it may go, and which segments become one. Pure; the rules are Kafka's.

    clean             dirty                      uncleanable
    ├─────────────────┼──────────────────────────┼─────────────────────────────▶
    log start         first_dirty_offset         first segment that must not be touched: the active one, what is not committed, what is
                                                 younger than min.compaction.lag.ms

The dirty ratio is dirty / (clean + dirty) bytes. A log is due when it is above `min.cleanable.dirty.ratio`, or when a dirty record has
waited for `max.compaction.lag.ms`. The filthiest goes first.
"""

from collections.abc import Sequence
from typing import NamedTuple

from millstream.log.config import LogConfig
from millstream.log.segment import MAX_RELATIVE_OFFSET


class CleanableSegment(NamedTuple):
    """What the rules want to know of a segment; times are -1 where they do not matter or no record has one."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int = -1
    first_timestamp: int = -1


class CleaningBounds(NamedTuple):
    """Where a log stands when it is asked whether it is due."""

    now_ms: int
    log_start_offset: int
    log_end_offset: int
    stable_offset: int
    """Everything below is committed, and on the disk."""
    cleaned_offset: int | None
    """How far compaction came, as the checkpoint says."""


class CleaningExtent(NamedTuple):
    """What compaction would do to a log."""

    first_dirty_offset: int
    end_offset: int
    """Base offset of the first segment that must not be touched."""
    segment_count: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a dirty record has waited for `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        """Share of the bytes that were not compacted yet."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def first_dirty_offset(bounds: CleaningBounds) -> int:
    """Where the dirty part begins; a checkpoint that does not fit the log is not believed."""
    cleaned = bounds.cleaned_offset
    if cleaned is None or not bounds.log_start_offset <= cleaned <= bounds.log_end_offset:
        return bounds.log_start_offset
    return cleaned


def extent_of(segments: Sequence[CleanableSegment], config: LogConfig, bounds: CleaningBounds) -> CleaningExtent:
    """The clean and dirty parts of a log; `segments` are all of it, the active one last."""
    dirty_from = first_dirty_offset(bounds)
    ends = [segment.base_offset for segment in segments[1:]]
    count = 0
    clean_bytes = dirty_bytes = 0
    is_overdue = False
    too_young = bounds.now_ms - config.min_compaction_lag_ms
    too_old = bounds.now_ms - config.max_compaction_lag_ms
    for segment, end in zip(segments[:-1], ends, strict=True):
        is_dirty = end > dirty_from
        if end > bounds.stable_offset or (is_dirty and config.min_compaction_lag_ms > 0 and segment.largest_timestamp > too_young):
            break
        count += 1
        if is_dirty:
            dirty_bytes += segment.size_bytes
            is_overdue |= 0 < segment.first_timestamp < too_old
        else:
            clean_bytes += segment.size_bytes
    return CleaningExtent(dirty_from, segments[count].base_offset, count, clean_bytes, dirty_bytes, is_overdue)


def is_due(extent: CleaningExtent, config: LogConfig) -> bool:
    """Whether a log with these parts should be compacted now."""
    return extent.dirty_bytes > 0 and (extent.is_overdue or extent.dirty_ratio > config.min_cleanable_dirty_ratio)


class GroupedSegment(NamedTuple):
    """What grouping wants to know of a segment."""

    base_offset: int
    end_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int


def group_segments(segments: Sequence[GroupedSegment], *, max_bytes: int, max_index_bytes: int) -> list[list[GroupedSegment]]:
    """Neighbours that fit into one segment, whatever compaction leaves of them: by bytes, index entries and the range of offsets."""
    groups: list[list[GroupedSegment]] = []
    for segment in segments:
        if groups and _fits(groups[-1], segment, max_bytes=max_bytes, max_index_bytes=max_index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(group: Sequence[GroupedSegment], segment: GroupedSegment, *, max_bytes: int, max_index_bytes: int) -> bool:
    return (
        sum(one.size_bytes for one in group) + segment.size_bytes <= max_bytes
        and sum(one.index_bytes for one in group) + segment.index_bytes <= max_index_bytes
        and sum(one.time_index_bytes for one in group) + segment.time_index_bytes <= max_index_bytes
        and segment.end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
    )
