import pytest

from millstream.mirror.copying.copied_batches import MAX_BATCHES, whole_batches
from millstream.mirror.trouble import Stopped
from tests.batches import encode_batch


def batch(at: int, *, count: int = 1, **fields: int) -> bytes:
    return encode_batch([b"x"] * count, keys=None, timestamp=1000 + at, base_offset=at, **fields)


def test_whole_batches_are_kept_as_they_are_with_a_range_for_each_gap() -> None:
    data = b"".join([batch(5, count=3, leader_epoch=1), batch(8, leader_epoch=2), batch(20, count=2, leader_epoch=4)])
    [found] = whole_batches(memoryview(data + batch(22)[:-1]), 5)
    assert (bytes(found.records), found.ranges) == (data, ((5, 9), (20, 22)))
    assert (found.first_offset, found.next_offset, found.offset_count) == (5, 22, 6)
    assert (found.leader_epoch, found.max_timestamp) == (4, 1020)


def test_batches_before_the_position_are_left_out() -> None:
    data = batch(5) + batch(6) + batch(7)
    [found] = whole_batches(memoryview(data), 7)
    assert (bytes(found.records), found.ranges) == (batch(7), ((7, 8),))


@pytest.mark.parametrize("data", [b"", batch(5)[:30], batch(5)[:-1], batch(3) + batch(4)])
def test_where_no_whole_batch_is_there_is_none(data: bytes) -> None:
    assert whole_batches(memoryview(data), 5) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [(batch(4, count=3), "offsets 4 to 6, and the target ends at 5"), (batch(5, magic=1), "format 1"), (batch(5, length=3), "format")],
)
def test_what_cannot_be_copied_stops_the_partition(data: bytes, reason: str) -> None:
    with pytest.raises(Stopped, match=reason):
        whole_batches(memoryview(data), 5)


def test_a_batch_inside_which_the_source_begins_is_taken_whole_if_the_target_ends_before_it() -> None:
    data = batch(2, count=2) + batch(4, count=3) + batch(7)
    [found] = whole_batches(memoryview(data), 5, target_end=4)
    assert (bytes(found.records), found.ranges) == (batch(4, count=3) + batch(7), ((4, 8),))
    with pytest.raises(Stopped, match="offsets 4 to 6, and the target ends at 5"):
        whole_batches(memoryview(data), 6, target_end=5)


def test_markers_of_transactions_are_copied_and_are_no_messages() -> None:
    data = b"".join(
        [batch(5, count=2), batch(7, attributes=0x30), batch(8), batch(9, attributes=0x30), batch(20, attributes=0x30), batch(21)]
    )
    [found] = whole_batches(memoryview(data), 5)
    assert (found.ranges, list(found.messages)) == (((5, 10), (20, 22)), [(5, 7), (8, 9), (21, 22)])
    [plain] = whole_batches(memoryview(batch(5) + batch(8)), 5)
    assert list(plain.messages) == [(5, 6), (8, 9)]


def test_many_small_batches_come_in_pieces_that_follow_each_other() -> None:
    data = b"".join(batch(offset) for offset in range(2 * MAX_BATCHES + 1))
    pieces = whole_batches(memoryview(data), 0)
    assert [piece.ranges for piece in pieces] == [((0, 1000),), ((1000, 2000),), ((2000, 2001),)]
    assert ([piece.batch_count for piece in pieces], b"".join(piece.records for piece in pieces)) == ([1000, 1000, 1], data)
