from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cluster.controller.placement import check_assignment, place
from millstream.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor

BROKERS = st.sets(st.integers(0, 200), min_size=1, max_size=9)


def without_racks(brokers: Iterable[int]) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


@given(BROKERS, st.integers(1, 60), st.integers(0, 40), st.integers(0, 40), st.data())
def test_every_partition_gets_distinct_living_brokers(
    brokers: set[int], partitions: int, first: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place(without_racks(brokers), partitions=partitions, replication_factor=factor, first_partition=first, shift=shift)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= brokers
    assert check_assignment(dict(enumerate(placed)), list(brokers)) == placed


@given(BROKERS, st.integers(1, 60), st.integers(0, 40), st.data())
def test_leaders_are_even(brokers: set[int], partitions: int, shift: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place(without_racks(brokers), partitions=partitions, replication_factor=factor, shift=shift)
    leaders = Counter(replicas[0] for replicas in placed)
    counts = [leaders[broker] for broker in brokers]
    assert max(counts) - min(counts) <= 1


@given(st.integers(2, 7), st.data())
def test_replicas_are_even_once_the_partitions_have_gone_round_in_full(count: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, count))
    placed = place(without_racks(range(count)), partitions=count * (count - 1), replication_factor=factor)
    assert len(set(Counter(broker for replicas in placed for broker in replicas).values())) == 1


def test_the_followers_of_one_leader_are_spread_over_all_others() -> None:
    placed = place(without_racks(range(4)), partitions=12, replication_factor=2)
    assert {followers for leader, followers in placed if leader == 0} == {1, 2, 3}


@given(st.dictionaries(st.integers(0, 50), st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9), st.integers(0, 40), st.data())
def test_a_rack_gets_a_second_replica_only_when_each_has_one(racks: dict[int, str | None], shift: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    for replicas in place(racks, partitions=30, replication_factor=factor, shift=shift):
        assert len(set(replicas)) == factor
        assert len({racks[replica] for replica in replicas}) == min(factor, len(set(racks.values())))


def test_over_racks_of_one_size_leaders_and_replicas_are_even() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    placed = place(racks, partitions=60, replication_factor=3)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {30}


def test_placement_is_that_of_the_example_in_kafkas_own_documentation() -> None:
    racks: dict[int, str | None] = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    placed = place(racks, partitions=12, replication_factor=3)
    assert placed[:6] == ((0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3))
    assert placed[6:] == ((0, 4, 2), (3, 2, 0), (1, 0, 3), (5, 3, 1), (4, 1, 5), (2, 5, 4))


def test_brokers_that_are_gone_get_replicas_only_where_there_are_too_few_others() -> None:
    racks: dict[int, str | None] = {1: None, 2: None}
    assert place(racks, gone=[1, 2, 3], partitions=2, replication_factor=2) == ((1, 2), (2, 1))
    assert place(racks, gone=[1, 2, 3], partitions=2, replication_factor=3) == ((1, 2, 3), (2, 1, 3))
    assert place({1: None}, gone=[2, 3], partitions=2, replication_factor=2) == ((1, 2), (1, 3))
    with pytest.raises(InvalidReplicationFactor, match=r"only 3 broker\(s\) are registered, 2 of them alive"):
        place(racks, gone=[1, 2, 3], partitions=2, replication_factor=4)
    with pytest.raises(InvalidReplicationFactor):
        place({}, gone=[1], partitions=1, replication_factor=1)


def test_what_cannot_be_placed_is_refused_with_kafkas_codes() -> None:
    with pytest.raises(InvalidPartitions):
        place({1: None}, partitions=0, replication_factor=1)
    with pytest.raises(InvalidReplicationFactor):
        place({1: None}, partitions=1, replication_factor=0)
    with pytest.raises(InvalidReplicationFactor, match="only 1 broker"):
        place({1: None}, partitions=1, replication_factor=2)


@pytest.mark.parametrize("given_assignment", [{0: [1], 2: [1]}, {1: [1]}, {0: [1, 2], 1: [1]}, {0: []}, {0: [1, 1]}, {0: [9]}], ids=repr)
def test_an_assignment_that_cannot_be_done_is_refused(given_assignment: dict[int, list[int]]) -> None:
    with pytest.raises(InvalidReplicaAssignment):
        check_assignment(given_assignment, [1, 2])


def test_an_assignment_for_new_partitions_has_as_many_replicas_as_the_others() -> None:
    with pytest.raises(InvalidReplicaAssignment, match="same number of replicas"):
        check_assignment({3: [1, 2]}, [1, 2], first_partition=3, replication_factor=1)


def test_an_assignment_for_new_partitions_begins_behind_the_old_ones() -> None:
    assert check_assignment({3: [1], 4: [2]}, [1, 2], first_partition=3) == ((1,), (2,))
