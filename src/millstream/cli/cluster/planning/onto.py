"""Puts topics onto chosen brokers, or gives them another number of replicas. Pure.

Replicas that are on the chosen brokers stay, others go to the emptiest of them; then what the topics have on these brokers is evened out as
`balance` does it. Only the topics themselves are counted: what else the brokers keep is not looked at.
"""

from collections.abc import Collection

from millstream.cli.cluster.planning.balance import balance_replicas
from millstream.cli.cluster.planning.layout import Layout, Targets
from millstream.cli.cluster.planning.leaders import balance_leaders
from millstream.cli.cluster.planning.placement import Placement
from millstream.topic_partition import TopicPartition


def onto(layout: Layout, places: Collection[TopicPartition], brokers: Collection[int], *, replication_factor: int | None) -> Targets:
    """What to change so that these partitions are on these brokers only; with so many replicas, or as many as they have."""
    placement = Placement(layout.only(places, brokers))
    for place in sorted(places, key=lambda place: (-placement.size_of(place), place)):
        before = placement.replicas[place]
        wanted = replication_factor or len(before)
        replicas = [broker for broker in before if broker in brokers][:wanted]
        while len(replicas) < wanted:
            new = placement.emptiest(place, replicas, brokers)
            assert new is not None, "there are as many brokers as replicas"
            replicas.append(new)
        placement.set_replicas(place, tuple(replicas))
    balance_replicas(placement)
    balance_leaders(placement)
    return placement.targets
