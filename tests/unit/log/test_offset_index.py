import struct
from pathlib import Path

from millstream.files import Files
from millstream.log.offset_index import OffsetIndex


def test_entries_are_kafkas_eight_bytes(tmp_path: Path) -> None:
    index = OffsetIndex(Files(), tmp_path / "i")
    index.add(7, 4321)
    index.write_out()
    assert (tmp_path / "i").read_bytes() == struct.pack(">ii", 7, 4321)


def test_position_is_that_of_the_last_batch_that_ends_at_or_before_the_offset(tmp_path: Path) -> None:
    index = OffsetIndex(Files(), tmp_path / "i")
    index.add(10, 4100)
    index.add(20, 8200)
    assert [index.position_for(offset) for offset in (0, 9, 10, 19, 20, 99)] == [0, 0, 4100, 4100, 8200, 8200]


def test_truncation_drops_batches_that_end_at_or_after_the_offset(tmp_path: Path) -> None:
    index = OffsetIndex(Files(), tmp_path / "i")
    index.add(10, 4100)
    index.add(20, 8200)
    index.truncate_from(20)
    assert len(index) == 1
    index.truncate_from(11)
    assert len(index) == 1
    index.truncate_from(10)
    assert len(index) == 0


def test_the_position_of_the_next_entry_is_known_if_it_is_at_hand(tmp_path: Path) -> None:
    index = OffsetIndex(Files(), tmp_path / "i")
    assert index.positions_around(5) == (0, -1)
    index.add(10, 4100)
    index.add(20, 8200)
    assert [index.positions_around(offset) for offset in (9, 10, 19, 20)] == [(0, 4100), (4100, 8200), (4100, 8200), (8200, -1)]
