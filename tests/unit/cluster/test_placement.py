from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cluster.placement import check_assignment, place
from millstream.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor

BROKERS = st.sets(st.integers(0, 200), min_size=1, max_size=9)


@given(BROKERS, st.integers(1, 60), st.integers(0, 40), st.integers(0, 40), st.data())
def test_every_partition_gets_distinct_living_brokers(
    brokers: set[int], partitions: int, first: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place(list(brokers), partitions=partitions, replication_factor=factor, first_partition=first, shift=shift)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= brokers
    assert check_assignment(dict(enumerate(placed)), list(brokers)) == placed


@given(BROKERS, st.integers(1, 60), st.integers(0, 40), st.data())
def test_leaders_are_even(brokers: set[int], partitions: int, shift: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    leaders = Counter(replicas[0] for replicas in place(list(brokers), partitions=partitions, replication_factor=factor, shift=shift))
    counts = [leaders[broker] for broker in brokers]
    assert max(counts) - min(counts) <= 1


@given(st.integers(2, 7), st.data())
def test_replicas_are_even_once_the_partitions_have_gone_round_in_full(count: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, count))
    placed = place(range(count), partitions=count * (count - 1), replication_factor=factor)
    assert len(set(Counter(broker for replicas in placed for broker in replicas).values())) == 1


def test_the_followers_of_one_leader_are_spread_over_all_others() -> None:
    placed = place(range(4), partitions=12, replication_factor=2)
    assert {followers for leader, followers in placed if leader == 0} == {1, 2, 3}


def test_what_cannot_be_placed_is_refused_with_kafkas_codes() -> None:
    with pytest.raises(InvalidPartitions):
        place([1], partitions=0, replication_factor=1)
    with pytest.raises(InvalidReplicationFactor):
        place([1], partitions=1, replication_factor=0)
    with pytest.raises(InvalidReplicationFactor, match="only 1 broker"):
        place([1], partitions=1, replication_factor=2)


@pytest.mark.parametrize("given_assignment", [{0: [1], 2: [1]}, {1: [1]}, {0: [1, 2], 1: [1]}, {0: []}, {0: [1, 1]}, {0: [9]}], ids=repr)
def test_an_assignment_that_cannot_be_done_is_refused(given_assignment: dict[int, list[int]]) -> None:
    with pytest.raises(InvalidReplicaAssignment):
        check_assignment(given_assignment, [1, 2])


def test_an_assignment_for_new_partitions_begins_behind_the_old_ones() -> None:
    assert check_assignment({3: [1], 4: [2]}, [1, 2], first_partition=3) == ((1,), (2,))
