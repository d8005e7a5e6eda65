from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.segment import Segment
from millstream.log.segments import Segments


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    made = Segments()
    for base in (0, 10, 25):
        made.add(Segment(Files(), tmp_path, base, config=LogConfig(), created_ms=0, size_bytes=base))
    return made


def bases(found: list[Segment]) -> list[int]:
    return [segment.base_offset for segment in found]


def test_segment_of_an_offset_is_found_by_its_base_offset(segments: Segments) -> None:
    assert [segments.number_holding(offset) for offset in (-1, 0, 9, 10, 24, 25, 1000)] == [-1, 0, 0, 1, 1, 2, 2]


def test_first_active_and_size(segments: Segments) -> None:
    assert (segments.first.base_offset, segments.active.base_offset, segments.size_bytes, len(segments)) == (0, 25, 35, 3)


def test_from_offset_includes_the_segment_that_holds_it(segments: Segments) -> None:
    assert bases(segments.from_offset(12)) == [10, 25]
    assert bases(segments.from_offset(-5)) == [0, 10, 25]


def test_segments_leave_at_both_ends(segments: Segments) -> None:
    assert bases(segments.remove_above(10)) == [25]
    assert bases(segments.remove_first(1)) == [0]
    assert bases(list(segments)) == [10]


def test_segments_are_added_in_order(segments: Segments, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        segments.add(Segment(Files(), tmp_path, 25, config=LogConfig(), created_ms=0))
