"""Which segments go: old ones, too many bytes, or records that were deleted.

As in Kafka: only segments whole below the high watermark, oldest first, stopping at the first that stays. Retention knows nothing of
consumers (section 3.1 of the paper). A segment is as old as its youngest record, or as its file if no record has a time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from millstream.log.config import LogConfig
from millstream.log.log import Log


class SegmentFacts(NamedTuple):
    """What retention wants to know of a segment."""

    end_offset: int
    """Base offset of the next segment; the log end offset for the last one."""
    size_bytes: int
    largest_timestamp: int


class RetentionBounds(NamedTuple):
    """Where the log stands when retention is applied."""

    now_ms: int
    log_start_offset: int
    high_watermark: int
    size_bytes: int


def apply_retention(log: Log, now_ms: int, *, high_watermark: int) -> list[Path]:
    """Drop segments that are too old, too many or before the start of the log; the renamed files, to be unlinked later."""
    log.check_usable()
    with log.directory.guarded("deleting old segments"):
        ends = [*log.segment_base_offsets[1:], log.log_end_offset]
        facts = [SegmentFacts(end, segment.size_bytes, segment.age_timestamp) for end, segment in zip(ends, log.segments, strict=True)]
        bounds = RetentionBounds(now_ms, log.log_start_offset, high_watermark, log.size_bytes)
        count = count_to_delete(facts, log.config, bounds)
        if count == len(log.segments):
            log.roll(now_ms=now_ms)
        dropped = log.delete_oldest(count)
    if log.local.is_flush_wanted:
        log.directory.to_flush.add(log.topic_partition)
    return dropped


def count_to_delete(segments: Sequence[SegmentFacts], config: LogConfig, bounds: RetentionBounds) -> int:
    """How many of the oldest segments go."""
    limit = config.retention_bytes if config.is_deleted else -1
    excess = bounds.size_bytes - limit if limit >= 0 else -1
    for number, facts in enumerate(segments):
        is_last_and_empty = number == len(segments) - 1 and facts.size_bytes == 0
        if is_last_and_empty or facts.end_offset > bounds.high_watermark:
            return number
        is_beyond_size = excess >= 0 and excess - facts.size_bytes >= 0
        # The last segment is never below the start: deleting up to the end still leaves it to be appended to.
        is_before_start = number < len(segments) - 1 and facts.end_offset <= bounds.log_start_offset
        is_expired = config.is_deleted and 0 <= config.retention_ms < bounds.now_ms - facts.largest_timestamp
        if not (is_before_start or is_beyond_size or is_expired):
            return number
        excess -= facts.size_bytes
    return len(segments)
