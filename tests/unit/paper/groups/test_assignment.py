import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.paper.groups.assignment import StreamId, Subscription, assign_range, read_subscription, streams_of

ANN, BOB, CAT = StreamId("ann", 0), StreamId("bob", 0), StreamId("cat", 0)


def test_each_stream_takes_a_range_in_the_order_of_the_sorted_streams() -> None:
    assert assign_range([3, 0, 2, 1], [BOB, ANN]) == {ANN: [0, 1], BOB: [2, 3]}


def test_what_does_not_divide_goes_to_the_first_streams() -> None:
    assert assign_range(range(5), [ANN, BOB, CAT]) == {ANN: [0, 1], BOB: [2, 3], CAT: [4]}


def test_more_streams_than_partitions_leave_some_without() -> None:
    assert assign_range([0], [ANN, BOB]) == {ANN: [0], BOB: []}


def test_an_empty_group_takes_nothing() -> None:
    assert assign_range([0, 1], []) == {}


def test_the_streams_of_a_consumer_are_sorted_by_number_not_by_text() -> None:
    streams = [StreamId("ann", number) for number in (10, 9)]
    assert list(assign_range(range(2), streams)) == [StreamId("ann", 9), StreamId("ann", 10)]


def test_a_group_has_as_many_streams_of_a_topic_as_its_consumers_have_together() -> None:
    group = {"ann": Subscription({"clicks": 2}), "bob": Subscription({"views": 1}), "cat": Subscription({"clicks": 1, "views": 1})}
    assert streams_of("clicks", group) == [StreamId("ann", 0), StreamId("ann", 1), StreamId("cat", 0)]


@given(partitions=st.sets(st.integers(0, 200), max_size=60), names=st.sets(st.text("abc", min_size=1, max_size=3), max_size=12))
def test_every_partition_has_one_owner_and_shares_differ_by_at_most_one(partitions: set[int], names: set[str]) -> None:
    streams = [StreamId(name, 0) for name in names]
    division = assign_range(partitions, streams)
    owned = [partition for share in division.values() for partition in share]
    assert sorted(owned) == (sorted(partitions) if names else [])
    sizes = [len(share) for share in division.values()]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    # Whoever computes it, in whatever order it was read, comes to the same.
    assert assign_range(sorted(partitions, reverse=True), streams[::-1]) == division


def test_a_subscription_is_read_as_it_was_written() -> None:
    subscription = Subscription({"clicks": 2, "views": 1})
    assert read_subscription(subscription.encode()) == subscription


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"topics": 7}', b'{"topics": {"a": "x"}}'])
def test_what_another_program_wrote_there_is_no_subscription(data: bytes) -> None:
    assert read_subscription(data) is None
