"""Which brokers get the replicas of a new partition: a pure rule, and the checks of an assignment that a client gives."""

from collections.abc import Mapping, Sequence

from millstream.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor

Assignment = tuple[tuple[int, ...], ...]
"""Replicas per partition, the first of each being the preferred leader."""


def place(brokers: Sequence[int], *, partitions: int, replication_factor: int, first_partition: int = 0, shift: int = 0) -> Assignment:
    """Spread replicas round robin over the sorted brokers, so that leaders and followers are even.

    The followers of partition p start one broker further each time the partitions have gone round, as in Kafka: when a broker dies,
    its load does not fall on one neighbour. `shift` varies from topic to topic, so that not all first partitions share a broker.
    """
    if replication_factor < 1:
        raise InvalidReplicationFactor(f"the replication factor must be at least 1, not {replication_factor}")
    if partitions < 1:
        raise InvalidPartitions(f"a topic needs at least 1 partition, not {partitions}")
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(f"replication factor {replication_factor} asked for, but only {len(brokers)} broker(s) are alive")
    ordered = sorted(brokers)
    count = len(ordered)
    assignment = []
    for partition in range(first_partition, first_partition + partitions):
        leader = (partition + shift) % count
        round_shift = (partition // count) % max(count - 1, 1)
        followers = [ordered[(leader + 1 + (round_shift + number) % (count - 1)) % count] for number in range(replication_factor - 1)]
        assignment.append((ordered[leader], *followers))
    return tuple(assignment)


def check_replication(replication_factor: int) -> None:
    """Raise InvalidReplicationFactor for more than one replica: no records would be copied to the others."""
    if replication_factor > 1:
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} asked for, but there is no replication yet: only 1 (or -1, the default) is possible"
        )


def check_assignment(given: Mapping[int, Sequence[int]], brokers: Sequence[int], *, first_partition: int = 0) -> Assignment:
    """The assignment a client asked for, as a tuple by partition, if it can be done."""
    expected = range(first_partition, first_partition + len(given))
    if sorted(given) != list(expected):
        raise InvalidReplicaAssignment(f"partitions must be numbered from {first_partition} without gaps, got {sorted(given)}")
    sizes = {len(replicas) for replicas in given.values()}
    if sizes and (len(sizes) > 1 or 0 in sizes):
        raise InvalidReplicaAssignment(f"all partitions need the same number of replicas, at least one; got {sorted(sizes)}")
    for partition, replicas in given.items():
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"partition {partition} names a broker twice: {list(replicas)}")
        unknown = sorted(set(replicas) - set(brokers))
        if unknown:
            raise InvalidReplicaAssignment(f"partition {partition} names brokers that are not alive: {unknown}")
    return tuple(tuple(given[partition]) for partition in expected)
