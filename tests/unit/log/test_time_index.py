import struct
from pathlib import Path

from millstream.files import Files
from millstream.log.time_index import TimeIndex


def test_entries_are_kafkas_twelve_bytes(tmp_path: Path) -> None:
    index = TimeIndex(Files(), tmp_path / "t")
    index.maybe_add(1_700_000_000_000, 7)
    index.write_out()
    assert (tmp_path / "t").read_bytes() == struct.pack(">qi", 1_700_000_000_000, 7)


def test_only_a_larger_timestamp_makes_an_entry(tmp_path: Path) -> None:
    index = TimeIndex(Files(), tmp_path / "t")
    for timestamp, offset in ((100, 1), (100, 2), (90, 3), (101, 4)):
        index.maybe_add(timestamp, offset)
    assert [index.entry(number) for number in range(len(index))] == [(100, 1), (101, 4)]


def test_records_without_a_time_make_no_entry(tmp_path: Path) -> None:
    index = TimeIndex(Files(), tmp_path / "t")
    index.maybe_add(-1, 0)
    assert len(index) == 0


def test_lookup_finds_the_first_entry_that_is_late_enough(tmp_path: Path) -> None:
    index = TimeIndex(Files(), tmp_path / "t")
    index.maybe_add(100, 5)
    index.maybe_add(200, 9)
    found = [index.first_at_or_above(timestamp) for timestamp in (0, 100, 101, 200, 201)]
    assert found == [(100, 5), (100, 5), (200, 9), (200, 9), None]


def test_truncation_drops_entries_of_later_offsets(tmp_path: Path) -> None:
    index = TimeIndex(Files(), tmp_path / "t")
    index.maybe_add(100, 5)
    index.maybe_add(200, 9)
    index.truncate_from(9)
    assert (len(index), index.last_key) == (1, 100)
