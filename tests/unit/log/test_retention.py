from millstream.log.config import LogConfig
from millstream.log.retention import RetentionBounds, SegmentFacts, count_to_delete

SEGMENTS = [SegmentFacts(10, 100, 1000), SegmentFacts(20, 100, 2000), SegmentFacts(30, 100, 3000)]


def count(
    *, now_ms: int = 3000, start: int = 0, high_watermark: int = 30, segments: list[SegmentFacts] | None = None, **options: object
) -> int:
    found = SEGMENTS if segments is None else segments
    config = LogConfig.of({name.replace("_", "."): value for name, value in options.items()})
    size = sum(facts.size_bytes for facts in found)
    return count_to_delete(found, config, RetentionBounds(now_ms, start, high_watermark, size))


def test_segments_go_when_their_youngest_record_is_too_old() -> None:
    assert count(retention_ms=1000) == 1
    assert count(retention_ms=999) == 2
    assert count(retention_ms=5000) == 0


def test_even_the_last_segment_may_be_too_old() -> None:
    assert count(retention_ms=1000, now_ms=10_000) == 3


def test_empty_last_segment_stays() -> None:
    assert count(retention_ms=1000, now_ms=10_000, segments=[SEGMENTS[0], SegmentFacts(10, 0, 0)]) == 1


def test_negative_retention_keeps_everything() -> None:
    assert count(retention_ms=-1, now_ms=10**15) == 0


def test_segments_go_while_the_rest_is_still_large_enough() -> None:
    assert count(retention_bytes=200) == 1
    assert count(retention_bytes=201) == 0
    assert count(retention_bytes=0) == 3


def test_nothing_above_the_high_watermark_goes() -> None:
    assert count(retention_ms=1, now_ms=10_000, high_watermark=19) == 1
    assert count(retention_bytes=0, high_watermark=0) == 0


def test_segments_before_the_start_go() -> None:
    assert count(start=10) == 1
    assert count(start=19) == 1
    assert count(start=20) == 2


def test_last_segment_is_kept_when_all_records_are_deleted() -> None:
    assert count(start=30) == 2


def test_compacted_topic_loses_only_what_was_deleted() -> None:
    assert count(cleanup_policy="compact", retention_ms=1, retention_bytes=1, now_ms=10_000) == 0
    assert count(cleanup_policy="compact", start=20) == 2
    assert count(cleanup_policy="compact,delete", retention_ms=1, now_ms=10_000) == 3
