from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.processes.spread import Place, moved, spread
from millstream.topic_partition import TopicPartition


def topic(name: str, *replicas: tuple[int, ...]) -> dict[TopicPartition, PartitionState]:
    return {TopicPartition(name, number): PartitionState.first(kept_by) for number, kept_by in enumerate(replicas)}


def moves(targets: dict[Place, int]) -> int:
    return sum(place.broker != target for place, target in targets.items())


def test_nothing_moves_where_all_is_even() -> None:
    states = topic("a", (1,), (2,), (1,), (2,)) | topic("b", (2,)) | topic("c", (1,))
    assert moves(spread(states, [1, 2])) == 0


def test_new_brokers_get_their_share_with_as_few_moves_as_that_takes() -> None:
    targets = spread(topic("a", *[(1,), (2,)] * 6), [1, 2, 3])
    assert Counter(targets.values()) == {1: 4, 2: 4, 3: 4}
    assert moves(targets) == 4


def test_topics_with_one_partition_are_spread_together() -> None:
    states = {name: state for number in range(40) for name, state in topic(f"t{number}", (1 + number % 2,)).items()}
    targets = spread(states, [1, 2, 3, 4])
    assert Counter(targets.values()) == {1: 10, 2: 10, 3: 10, 4: 10}
    assert moves(targets) == 20


def test_what_brokers_had_that_are_gone_is_spread_over_the_others() -> None:
    targets = spread(topic("a", (1,), (2,), (3,), (4,)), [1, 2])
    assert Counter(targets.values()) == {1: 2, 2: 2}
    assert moves(targets) == 2


def test_of_more_replicas_than_brokers_the_leader_stays() -> None:
    partition = TopicPartition("a", 0)
    states = {partition: PartitionState((1, 2, 3), 3, 5, (2, 3))}
    targets = spread(states, [1])
    assert targets == {Place(partition, 3): 1}
    assert moved(states[partition], {3: 1}) == PartitionState((1,), 1, 6, (1,))


def test_of_more_replicas_than_brokers_without_a_leader_one_that_is_in_sync_stays() -> None:
    partition = TopicPartition("a", 0)
    states = {partition: PartitionState((1, 2, 3), NO_LEADER, 5, (2,), last_leader=3)}
    assert spread(states, [1]) == {Place(partition, 2): 1}


def test_partition_that_stays_keeps_its_epoch() -> None:
    state = PartitionState((1, 2), 1, 5, (1,), (2,))
    assert moved(state, {1: 1, 2: 2}) is state or moved(state, {1: 1, 2: 2}) == state
    assert moved(state, {1: 1, 2: 3}) == PartitionState((1, 3), 1, 6, (1,), (3,))
    assert moved(state._replace(leader=NO_LEADER, last_leader=1), {1: 4, 2: 2}).last_leader == 4


def test_a_partition_that_was_being_reassigned_goes_on_unless_one_side_is_given_up() -> None:
    state = PartitionState((2, 1), 1, 5, (1,), adding_replicas=(2,), removing_replicas=(1,))
    there = moved(state, {1: 3, 2: 4})
    assert (there.replicas, there.adding_replicas, there.removing_replicas) == ((4, 3), (4,), (3,))
    given_up = moved(state, {1: 1})
    assert (given_up.replicas, given_up.is_reassigning) == ((1,), False)


@given(
    st.lists(st.lists(st.sets(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=12), min_size=1, max_size=8),
    st.sets(st.integers(1, 8), min_size=1, max_size=5),
)
def test_every_partition_is_kept_once_per_broker_and_topics_are_even(topics: list[list[set[int]]], brokers: set[int]) -> None:
    states = {key: state for number, all_of in enumerate(topics) for key, state in topic(f"t{number}", *map(tuple, all_of)).items()}
    targets = spread(states, brokers)
    kept: dict[TopicPartition, list[int]] = defaultdict(list)
    for place, target in targets.items():
        kept[place.partition].append(target)
    for name, state in states.items():
        assert len(kept[name]) == len(set(kept[name])) == min(len(state.replicas), len(brokers))
        assert set(kept[name]) <= brokers
        new = moved(state, {place.broker: target for place, target in targets.items() if place.partition == name})
        assert new.leader in new.in_sync_replicas
    if all(len(state.replicas) == 1 for state in states.values()):
        for number in range(len(topics)):
            counts = Counter(dict.fromkeys(brokers, 0))
            counts.update(target for place, target in targets.items() if place.partition.topic == f"t{number}")
            assert max(counts.values()) - min(counts.values()) <= 1
        loads = Counter(dict.fromkeys(brokers, 0))
        loads.update(targets.values())
        assert max(loads.values()) - min(loads.values()) <= 1


@pytest.mark.parametrize("count", [10_000])
def test_many_partitions_take_no_long_time(count: int) -> None:
    targets = spread(topic("a", *[(1 + number % 2,) for number in range(count)]), range(1, 17))
    assert max(Counter(targets.values()).values()) == count // 16
