from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.jobs.load.files_as_rows import SMALLEST_TASK, share_ranges
from millstream.spark.source.offset_ranges import OffsetRange
from millstream.topic_partition import TopicPartition


def ranges_of(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("clicks", number), 10, 10 + size) for number, size in enumerate(sizes)]


def test_small_partitions_share_a_task() -> None:
    [share] = share_ranges(ranges_of(*[100] * 16), 4)
    assert [one.size for one in share] == [100] * 16


def test_a_large_partition_is_split_over_the_cores() -> None:
    shares = share_ranges(ranges_of(400_000), 4)
    assert [[(one.start, one.end) for one in share] for share in shares] == [
        [(10, 100_010)],
        [(100_010, 200_010)],
        [(200_010, 300_010)],
        [(300_010, 400_010)],
    ]


def test_four_partitions_on_two_cores_are_two_tasks() -> None:
    shares = share_ranges(ranges_of(*[1_000_000] * 4), 2)
    assert [[one.place.partition for one in share] for share in shares] == [[0, 2], [1, 3]]


@given(st.lists(st.integers(1, 5 * SMALLEST_TASK), min_size=1, max_size=20), st.integers(1, 8))
def test_every_offset_is_in_one_task_and_tasks_are_of_about_the_same_size(sizes: list[int], tasks: int) -> None:
    shares = share_ranges(ranges_of(*sizes), tasks)
    assert 1 <= len(shares) <= tasks
    covered = sorted((one.place.partition, offset) for share in shares for one in share for offset in (one.start, one.end))
    edges = {number: [offset for partition, offset in covered if partition == number] for number in range(len(sizes))}
    for number, size in enumerate(sizes):
        starts, ends = edges[number][::2], edges[number][1::2]
        assert starts[0] == 10
        assert ends[-1] == 10 + size
        assert starts[1:] == ends[:-1]
    largest = max(sum(one.size for one in share) for share in shares)
    assert largest <= 2 * -(-sum(sizes) // len(shares))
