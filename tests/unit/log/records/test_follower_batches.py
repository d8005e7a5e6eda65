import pytest

from millstream.errors import CorruptMessage
from millstream.log.records.follower_batches import split_batches
from tests.batches import encode_batch

ONE = encode_batch([b"a", b"b"], base_offset=10, timestamp=1)
TWO = encode_batch([b"c"], base_offset=12, timestamp=1)


def test_whole_batches_are_taken_and_the_cut_off_one_is_left() -> None:
    headers = split_batches(ONE + TWO + TWO[:-1], log_end_offset=10)
    assert [header.base_offset for header in headers] == [10, 12]
    assert split_batches(ONE[:50], log_end_offset=10) == []
    assert split_batches(b"", log_end_offset=10) == []


def test_offsets_may_leave_holes_but_not_go_back() -> None:
    assert len(split_batches(ONE, log_end_offset=3)) == 1
    with pytest.raises(CorruptMessage, match="had to follow"):
        split_batches(ONE, log_end_offset=11)
    with pytest.raises(CorruptMessage, match="had to follow"):
        split_batches(TWO + ONE, log_end_offset=10)


def test_damage_on_the_way_is_noticed() -> None:
    for position in (16, 30, len(ONE) - 1):
        damaged = bytearray(ONE)
        damaged[position] ^= 1
        with pytest.raises(CorruptMessage):
            split_batches(damaged, log_end_offset=10)
