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


def test_without_that_promise_a_first_batch_that_does_not_fit_is_left_out(open_log: OpenLog) -> None:
    log = open_log()
    append_many(log, 3)
    size = len(read_bytes(log, 0, limit=1))

    def length(max_bytes: int, *, offset: int = 0) -> int:
        region = log.read(offset, max_bytes=max_bytes, limit_offset=3, min_one_batch=False)
        return 0 if region is None else region.length

    assert [length(limit) for limit in (0, 1, size - 1, size, size + 1, 3 * size, 4 * size)] == [
        0,
        0,
        0,
        size,
        size + 1,
        3 * size,
        3 * size,
    ]
    assert [length(limit, offset=2) for limit in (size - 1, size, size + 1)] == [0, size, size]


def test_the_rule_holds_for_batches_that_only_the_file_remembers(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=50_000)
    append_many(log, 400)
    size = len(read_bytes(log, 0, limit=1))
    assert len(log.segment_base_offsets) > 1
    assert log.read(0, max_bytes=size - 1, limit_offset=400, min_one_batch=False) is None
    region = log.read(0, max_bytes=size + 10, limit_offset=400, min_one_batch=False)
    assert region is not None
    assert region.length == size + 10


def test_what_a_reader_could_get_ends_at_the_limit_or_is_final_at_the_end_of_a_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=2000)
    append_many(log, 30)
    size, last = len(read_bytes(log, 0, limit=1)), log.segment_base_offsets[-1]
    assert log.readable_bytes(0, limit_offset=3) == 3 * size
    assert log.readable_bytes(0, limit_offset=30) is None
    assert log.readable_bytes(last, limit_offset=30) == log.size_bytes - sum(
        path.stat().st_size for path in sorted(log.path.glob("*.log"))[:-1]
    )
    assert log.readable_bytes(30, limit_offset=30) == 0


def test_holes_between_segments_are_stepped_over(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy="compact")
    log.append_as_follower(encode_batch([b"a"], base_offset=0, timestamp=1), now_ms=1)
    log.roll(now_ms=1)
    log.append_as_follower(encode_batch([b"a"], base_offset=20, timestamp=1), now_ms=1)
    assert [header.base_offset for header, _ in split_batches(read_bytes(log, 5))] == [20]
