from millstream.mirror.merging.merged_partition import MergedPartitions, MergedRecords
from millstream.topic_partition import TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def states(partitions: MergedPartitions) -> dict[TopicPartition, tuple[str, int]]:
    return {one.name: (one.state, one.lag) for one in partitions.now()}


def test_the_lag_is_known_once_both_ends_are() -> None:
    partitions = MergedPartitions()
    partitions.begin({FIRST: -1, SECOND: 7})
    assert states(partitions) == {FIRST: ("starting", -1), SECOND: ("copying", -1)}
    partitions.found_ends({FIRST: 5, SECOND: 10})
    assert states(partitions) == {FIRST: ("starting", -1), SECOND: ("copying", 3)}
    partitions.merged({FIRST: MergedRecords(4, count=4, size_bytes=40, last_timestamp=9)})
    partitions.merged({FIRST: MergedRecords(5)})  # a marker of a transaction at the end
    assert states(partitions) == {FIRST: ("copying", 0), SECOND: ("copying", 3)}
    [first, _] = partitions.now()
    assert (first.copied_offsets, first.copied_bytes, first.last_timestamp) == (4, 40, 9)


def test_what_goes_to_another_process_is_not_reported_any_more() -> None:
    partitions = MergedPartitions()
    partitions.begin({FIRST: 0, SECOND: 0})
    partitions.end([FIRST])
    partitions.merged({FIRST: MergedRecords(4)})
    partitions.found_ends({FIRST: 5})
    assert list(states(partitions)) == [SECOND]
    partitions.begin({FIRST: 2}, is_all=True)
    assert list(states(partitions)) == [FIRST]


def test_a_pause_ends_with_the_next_pause_or_assignment() -> None:
    partitions = MergedPartitions()
    partitions.begin({FIRST: 0, SECOND: 0})
    partitions.pause([FIRST])
    assert [state for state, _ in states(partitions).values()] == ["paused", "copying"]
    partitions.pause([SECOND])
    assert [state for state, _ in states(partitions).values()] == ["copying", "paused"]
    partitions.begin({SECOND: 0})
    assert [state for state, _ in states(partitions).values()] == ["copying", "copying"]
