"""How micro-batches are limited and split: by the rules of Spark's own connector."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.source.offset_ranges import OffsetRange, combine_ranges, count_offsets, limit_offsets, split_ranges
from millstream.topic_partition import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_a_limit_is_shared_out_in_proportion_to_what_waits() -> None:
    assert limit_offsets({A: 0, B: 100, C: 7}, {A: 80, B: 120, C: 7}, 50) == {A: 40, B: 110, C: 7}


def test_a_partition_with_little_waiting_does_not_starve() -> None:
    assert limit_offsets({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert limit_offsets({A: 0, B: 0}, {A: 5, B: 5}, 10) == {A: 5, B: 5}


def test_a_partition_that_lost_records_is_not_read_backwards() -> None:
    assert limit_offsets({A: 50, B: 0}, {A: 10, B: 100}, 20) == {A: 10, B: 20}
    assert count_offsets({A: 50, B: 0}, {A: 10, B: 100}) == 100


sizes = st.lists(st.integers(0, 1000), min_size=1, max_size=6)


@given(sizes, st.integers(1, 500))
def test_limited_ends_move_forward_to_the_end(waiting: list[int], limit: int) -> None:
    places = [TopicPartition("t", number) for number in range(len(waiting))]
    start, end = dict.fromkeys(places, 0), dict(zip(places, waiting, strict=True))
    for _ in range(sum(waiting) + 1):
        if start == end:
            break
        limited = limit_offsets(start, end, limit)
        assert all(start[place] <= limited[place] <= end[place] for place in places)
        assert 0 < count_offsets(start, limited) <= limit + len(places)
        start = limited
    assert start == end


@given(sizes, st.none() | st.integers(1, 20), st.none() | st.integers(1, 400))
def test_ranges_cover_everything_once_and_keep_to_their_limits(lengths: list[int], at_least: int | None, at_most: int | None) -> None:
    whole = [OffsetRange(TopicPartition("t", number), 10, 10 + length) for number, length in enumerate(lengths)]
    pieces = split_ranges(whole, at_least=at_least, at_most_records=at_most)
    offsets = [(piece.place, offset) for piece in pieces for offset in range(piece.start, piece.end)]
    assert offsets == [(one.place, offset) for one in whole for offset in range(one.start, one.end)]
    assert all(piece.size > 0 for piece in pieces)
    if at_most is not None:
        assert all(piece.size <= at_most for piece in pieces)
    if at_least is not None:
        assert len(pieces) >= min(at_least, sum(lengths))


def test_what_is_largest_is_split_first() -> None:
    pieces = split_ranges([OffsetRange(A, 0, 90), OffsetRange(B, 0, 10)], at_least=4)
    assert [(piece.place, piece.size) for piece in pieces] == [(A, 30), (A, 30), (A, 30), (B, 10)]


def ranges_of(*lengths: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", number), 10, 10 + length) for number, length in enumerate(lengths)]


def test_small_ranges_share_tasks_beside_a_large_one() -> None:
    tasks = combine_ranges(ranges_of(5, 100, 5, 1, 5, 5), min_records=10)
    assert [[one.size for one in task.ranges] for task in tasks] == [[100], [5, 5], [1, 5, 5]]


def test_tasks_of_several_ranges_are_never_larger_than_allowed() -> None:
    tasks = combine_ranges(ranges_of(9, 9, 1, 9), min_records=10, max_records=10)
    assert [[one.size for one in task.ranges] for task in tasks] == [[9], [9, 1], [9]]


@given(sizes, st.integers(1, 500), st.none() | st.integers(500, 1000))
def test_every_range_is_in_one_task_and_the_tasks_are_few(lengths: list[int], min_records: int, max_records: int | None) -> None:
    whole = split_ranges(ranges_of(*lengths), at_most_records=max_records)
    tasks = combine_ranges(whole, min_records=min_records, max_records=max_records)
    assert sorted(one for task in tasks for one in task.ranges) == whole
    assert all(list(task.ranges) == sorted(task.ranges) for task in tasks)
    shared = [sum(one.size for one in task.ranges) for task in tasks if len(task.ranges) > 1]
    assert all(size < 2 * min_records and size <= (max_records or size) for size in shared)
    if max_records is None:
        assert len(tasks) <= sum(lengths) // min_records + 1
