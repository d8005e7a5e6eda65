"""Which brokers get the replicas of a new partition: a pure rule, and the checks of an assignment that a client gives."""

import itertools
from collections.abc import Collection, Mapping, Sequence

from millstream.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor

Assignment = tuple[tuple[int, ...], ...]
"""Replicas per partition, the first of each being the preferred leader."""

Racks = Mapping[int, str | None]
"""The living brokers, and where they stand."""


def place(
    racks: Racks, *, partitions: int, replication_factor: int, gone: Collection[int] = (), first_partition: int = 0, shift: int = 0
) -> Assignment:
    """Spread replicas over the living brokers, given with their racks, so that leaders and followers are even: Kafka's rule.

    The brokers go round rack by rack. Followers of partition p start one round of racks further each time the partitions have gone round,
    so that the load of a broker that dies does not fall on one neighbour, and a rack gets a second replica only when each has one. `shift`
    varies from topic to topic, so that not all first partitions share a broker. Brokers that are `gone` for now (Kafka: registered, but
    fenced) get replicas only where there are too few others: a topic can be created while one broker of three is being restarted.
    """
    if replication_factor < 1:
        raise InvalidReplicationFactor(f"the replication factor must be at least 1, not {replication_factor}")
    if partitions < 1:
        raise InvalidPartitions(f"a topic needs at least 1 partition, not {partitions}")
    absent = sorted(set(gone) - set(racks))
    registered = len(racks) + len(absent)
    if replication_factor > registered or not racks:
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} asked for, but only {registered} broker(s) are registered, {len(racks)} of them alive"
        )
    ordered = _alternating(racks)
    living, missing = min(replication_factor, len(racks)), max(replication_factor - len(racks), 0)
    numbers = range(first_partition, first_partition + partitions)
    return tuple(
        _replicas(ordered, racks, living, partition, shift) + tuple(absent[(partition + one) % len(absent)] for one in range(missing))
        for partition in numbers
    )


def _alternating(racks: Racks) -> list[int]:
    """The brokers, one of each rack in turn; those without a rack count as one."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    in_turn = itertools.zip_longest(*(by_rack[rack] for rack in sorted(by_rack, key=lambda rack: (rack is None, rack or ""))))
    return [broker for one_of_each in in_turn for broker in one_of_each if broker is not None]


def _replicas(ordered: Sequence[int], racks: Racks, replication_factor: int, partition: int, shift: int) -> tuple[int, ...]:
    count, rack_count = len(ordered), len(set(racks.values()))
    first = (partition + shift) % count
    replicas, used = [ordered[first]], {racks[ordered[first]]}
    others = (ordered[(first + 1 + number % (count - 1)) % count] for number in itertools.count(partition // count * rack_count))
    while len(replicas) < replication_factor:
        broker = next(others)
        if broker not in replicas and (racks[broker] not in used or len(used) == rack_count):
            replicas.append(broker)
            used.add(racks[broker])
    return tuple(replicas)


def check_assignment(
    given: Mapping[int, Sequence[int]], registered: Collection[int], *, first_partition: int = 0, replication_factor: int | None = None
) -> Assignment:
    """The assignment a client asked for, as a tuple by partition, if it can be done; `replication_factor` is what the others have."""
    expected = range(first_partition, first_partition + len(given))
    if sorted(given) != list(expected):
        raise InvalidReplicaAssignment(f"partitions must be numbered from {first_partition} without gaps, got {sorted(given)}")
    sizes = {len(replicas) for replicas in given.values()} | ({replication_factor} if replication_factor is not None else set())
    if sizes and (len(sizes) > 1 or 0 in sizes):
        raise InvalidReplicaAssignment(f"all partitions need the same number of replicas, at least one; got {sorted(sizes)}")
    for partition, replicas in given.items():
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"partition {partition} names a broker twice: {list(replicas)}")
        unknown = sorted(set(replicas) - set(registered))
        if unknown:
            raise InvalidReplicaAssignment(f"partition {partition} names brokers that are not registered: {unknown}")
    return tuple(tuple(given[partition]) for partition in expected)
