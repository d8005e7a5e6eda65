"""What brokers and partitions add up to."""

from millstream.cli.cluster.cluster_status import NO_LEADER, BrokerAddress, PartitionStatus, cluster_status

BROKERS = [BrokerAddress(number, f"b{number}:9092", "a") for number in (2, 1, 3)]
MINIMA = {"t": 2}


def partition(number: int, leader: int, in_sync: tuple[int, ...], *, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionStatus:
    return PartitionStatus("t", number, leader, replicas, in_sync)


def test_a_cluster_is_well_when_every_replica_is_in_sync() -> None:
    status = cluster_status("c", 1, BROKERS, [partition(1, 2, (1, 2, 3)), partition(0, 1, (3, 2, 1))], MINIMA)
    assert status.is_well
    assert [broker.node_id for broker in status.brokers] == [1, 2, 3]
    assert (status.topic_count, status.partition_count, status.leaders) == (1, 2, {1: 1, 2: 1})
    # Led by another than the first replica: said, and not a fault.
    assert [one.partition for one in status.unpreferred] == [1]


def test_each_partition_is_in_the_gravest_list_only() -> None:
    partitions = [partition(0, NO_LEADER, (3,)), partition(1, 1, (1,)), partition(2, 1, (1, 2)), partition(3, 1, (1, 2, 3))]
    status = cluster_status("c", 1, BROKERS, partitions, MINIMA)
    assert not status.is_well
    assert [[one.partition for one in found] for found in (status.offline, status.under_min_isr, status.under_replicated)] == [
        [0],
        [1],
        [2],
    ]


def test_a_broker_that_holds_replicas_and_is_not_there_is_missing() -> None:
    status = cluster_status("c", NO_LEADER, BROKERS[:2], [partition(0, 1, (1, 2, 3))], MINIMA)
    assert status.missing_brokers == [3]
    assert not status.is_well
    document = status.document()
    assert document["controller"] is None
    assert document["missing_brokers"] == [3]


def test_without_topics_all_is_well() -> None:
    assert cluster_status("c", 1, BROKERS, [], {}).is_well


def test_the_minimum_of_a_topic_that_is_not_known_is_one() -> None:
    status = cluster_status("c", 1, BROKERS, [PartitionStatus("new", 0, 1, (1, 2), (1,))], {})
    assert [one.name for one in status.under_replicated] == ["new-0"]


def test_a_minimum_above_the_number_of_replicas_counts_as_that_number() -> None:
    assert cluster_status("c", 1, BROKERS, [partition(0, 1, (1,), replicas=(1,))], MINIMA).is_well
