from tests.batches import decode_records, encode_batch, split_batches
from tests.unit.log.conftest import OpenLog
from tests.unit.log.partition import append_many, read_bytes


def test_read_starts_with_the_batch_that_holds_the_offset_in_every_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=2000, index_interval_bytes=300)
    append_many(log, 100)
    assert len(log.segment_base_offsets) > 5
    for offset in range(100):
        assert decode_records(read_bytes(log, offset))[0].offset == offset


def test_read_ends_at_the_limit_and_at_the_end_of_the_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=2000)
    append_many(log, 30)
    second = log.segment_base_offsets[1]
    assert decode_records(read_bytes(log, 0, limit=3))[-1].offset == 2
    assert decode_records(read_bytes(log, 0, limit=second))[-1].offset == second - 1
    assert decode_records(read_bytes(log, 0, limit=30))[-1].offset == second - 1
    assert read_bytes(log, 5, limit=5) == b""
    assert read_bytes(log, 30) == b""


def test_first_batch_is_whole_even_if_it_is_larger_than_asked_for(open_log: OpenLog) -> None:
    log = open_log()
    append_many(log, 3)
    batch = read_bytes(log, 1, limit=2)
    assert read_bytes(log, 1, max_bytes=1) == batch
    assert read_bytes(log, 1, max_bytes=len(batch) + 10)[: len(batch)] == batch
    assert len(read_bytes(log, 1, max_bytes=len(batch) + 10)) == len(batch) + 10


def test_without_that_promise_a_read_may_be_cut_anywhere(open_log: OpenLog) -> None:
    log = open_log()
    append_many(log, 3)
    region = log.read(0, max_bytes=10, limit_offset=3, min_one_batch=False)
    assert region is not None
    assert region.length == 10
    assert log.read(0, max_bytes=0, limit_offset=3, min_one_batch=False) is None


def test_holes_between_segments_are_stepped_over(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy="compact")
    log.append_as_follower(encode_batch([b"a"], base_offset=0, timestamp=1), now_ms=1)
    log.roll(now_ms=1)
    log.append_as_follower(encode_batch([b"a"], base_offset=20, timestamp=1), now_ms=1)
    assert [header.base_offset for header, _ in split_batches(read_bytes(log, 5))] == [20]
