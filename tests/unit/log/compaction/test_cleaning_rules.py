"""When a log is due for compaction, how far it may go, and which segments become one."""

from millstream.log.compaction.cleaning_rules import (
    CleanableSegment,
    CleaningBounds,
    CleaningExtent,
    GroupedSegment,
    extent_of,
    first_dirty_offset,
    group_segments,
    is_due,
)
from millstream.log.config import LogConfig
from millstream.log.segment import MAX_RELATIVE_OFFSET

NOW_MS = 1_000_000
SEGMENTS = [CleanableSegment(number * 10, 100, NOW_MS - 1000 + number, NOW_MS - 1000 + number) for number in range(5)]


def bounds(*, start: int = 0, stable: int = 45, cleaned: int | None = None) -> CleaningBounds:
    return CleaningBounds(NOW_MS, start, 45, stable, cleaned)


def extent(config: LogConfig | None = None, **fields: int) -> CleaningExtent:
    return extent_of(SEGMENTS, config or LogConfig(), bounds(**fields))


def test_everything_but_the_active_segment_can_be_compacted() -> None:
    assert extent() == CleaningExtent(0, 40, 4, 0, 400, False)


def test_what_was_compacted_is_clean() -> None:
    assert extent(cleaned=20) == CleaningExtent(20, 40, 4, 200, 200, False)
    assert extent(cleaned=20).dirty_ratio == 0.5


def test_a_segment_that_was_compacted_in_part_is_dirty() -> None:
    assert extent(cleaned=15) == CleaningExtent(15, 40, 4, 100, 300, False)


def test_nothing_beyond_what_is_committed_and_on_the_disk_is_touched() -> None:
    assert extent(stable=30).end_offset == 30
    assert extent(stable=29).end_offset == 20
    assert extent(stable=0) == CleaningExtent(0, 0, 0, 0, 0, False)


def test_young_records_are_safe_for_the_minimum_lag() -> None:
    assert extent(LogConfig(min_compaction_lag_ms=998)).end_offset == 30
    assert extent(LogConfig(min_compaction_lag_ms=5000)).segment_count == 0
    assert extent(LogConfig(min_compaction_lag_ms=1)).segment_count == 4
    assert extent(LogConfig(min_compaction_lag_ms=5000), cleaned=20).segment_count == 2


def test_a_log_is_due_above_its_dirty_ratio() -> None:
    assert not is_due(extent(cleaned=20), LogConfig(min_cleanable_dirty_ratio=0.5))
    assert is_due(extent(cleaned=20), LogConfig(min_cleanable_dirty_ratio=0.49))
    assert is_due(extent(), LogConfig())
    assert is_due(extent(cleaned=30), LogConfig(min_cleanable_dirty_ratio=0.0))
    assert not is_due(extent(cleaned=40), LogConfig(min_cleanable_dirty_ratio=0.0))


def test_a_log_is_due_when_a_dirty_record_has_waited_for_the_maximum_lag() -> None:
    patient, impatient = LogConfig(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000), LogConfig(max_compaction_lag_ms=997)
    assert not is_due(extent(patient, cleaned=20), patient)
    assert is_due(extent(impatient, cleaned=20), impatient)
    assert not is_due(extent(impatient, cleaned=40), impatient)


def test_a_checkpoint_that_does_not_fit_the_log_is_not_believed() -> None:
    assert first_dirty_offset(bounds(cleaned=46, start=3)) == 3
    assert first_dirty_offset(bounds(cleaned=2, start=3)) == 3
    assert first_dirty_offset(bounds(cleaned=45, start=3)) == 45


def grouped(*sizes: int, index_bytes: int = 0, time_index_bytes: int = 0, step: int = 10) -> list[GroupedSegment]:
    return [GroupedSegment(n * step, (n + 1) * step, size, index_bytes, time_index_bytes) for n, size in enumerate(sizes)]


def counts(segments: list[GroupedSegment]) -> list[int]:
    groups = group_segments(segments, max_bytes=100, max_index_bytes=30)
    assert [segment for group in groups for segment in group] == segments
    return [len(group) for group in groups]


def test_neighbours_become_one_as_long_as_they_fit() -> None:
    assert counts(grouped(40, 60, 1, 99, 100, 101, 5)) == [2, 2, 1, 1, 1]
    assert counts([]) == []


def test_a_group_fits_into_one_index_and_one_range_of_offsets() -> None:
    assert counts(grouped(1, 1, 1, index_bytes=15)) == [2, 1]
    assert counts(grouped(1, 1, 1, time_index_bytes=10)) == [3]
    assert counts(grouped(1, 1, 1, time_index_bytes=16)) == [1, 1, 1]
    assert counts(grouped(1, 1, 1, step=(MAX_RELATIVE_OFFSET + 1) // 2)) == [2, 1]
