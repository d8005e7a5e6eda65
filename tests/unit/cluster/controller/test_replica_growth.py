"""Further replicas for partitions that have too few."""

from collections import Counter

from millstream.cluster.controller.replica_growth import grown_replicas
from millstream.coordination.partition_state import PartitionState
from millstream.topic_partition import TopicPartition

BROKERS: dict[int, str | None] = {1: None, 2: None, 3: None, 4: None}


def partitions(count: int, *replicas: int) -> dict[TopicPartition, PartitionState]:
    return {TopicPartition("offsets", number): PartitionState.first(replicas) for number in range(count)}


def test_replicas_and_preferred_leaders_are_spread_evenly() -> None:
    grown = grown_replicas(partitions(12, 1), BROKERS, replication_factor=3)
    assert {len(set(state.replicas)) for state in grown.values()} == {3}
    kept = Counter(replica for state in grown.values() for replica in state.replicas)
    assert kept == {1: 12, 2: 8, 3: 8, 4: 8}
    assert Counter(state.preferred_leader for state in grown.values()) == {1: 3, 2: 3, 3: 3, 4: 3}


def test_the_in_sync_set_and_the_leader_stay() -> None:
    (state,) = grown_replicas(partitions(1, 2), BROKERS, replication_factor=3).values()
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (2, 0, (2,))


def test_as_many_as_there_are_brokers_and_no_more() -> None:
    assert [set(state.replicas) for state in grown_replicas(partitions(1, 1), {1: None, 2: None}, replication_factor=3).values()] == [
        {1, 2}
    ]
    assert grown_replicas(partitions(2, 1, 2, 3), BROKERS, replication_factor=3) == {}
    assert grown_replicas(partitions(2, 9, 1, 2), BROKERS, replication_factor=3) == {}, "a broker that is away keeps its replica"


def test_another_rack_comes_first() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b"}
    (state,) = grown_replicas(partitions(1, 1), racks, replication_factor=2).values()
    assert set(state.replicas) == {1, 3}


def test_what_an_operator_has_placed_stays_so() -> None:
    placed = {name: state._replace(is_assigned=True) for name, state in partitions(2, 1, 2).items()}
    assert grown_replicas(placed, BROKERS, replication_factor=3) == {}
