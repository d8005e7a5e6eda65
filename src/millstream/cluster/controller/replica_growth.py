"""More replicas for partitions that have too few, because brokers joined after the topic was created. Pure.

For the topics that the cluster itself lives by (groups, transactions, schemas): created when one broker happened to be there first, they
would have one copy for ever. The in-sync set stays as it is: a new replica joins it when it has caught up. The order of the replicas says
who should lead, so new ones are also put first where that spreads the leaders. A partition that an operator has put somewhere stays as it
is: a broker that is being drained would be given back what was taken from it.
"""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from millstream.coordination.partition_state import PartitionState
from millstream.topic_partition import TopicPartition


def grown_replicas(
    partitions: Mapping[TopicPartition, PartitionState], brokers: Mapping[int, str | None], *, replication_factor: int
) -> dict[TopicPartition, PartitionState]:
    """The partitions of one topic that get further replicas, on those of `brokers` (with their racks) that keep the fewest of the topic."""
    kept = Counter(replica for state in partitions.values() for replica in state.replicas)
    preferred = Counter(state.replicas[0] for state in partitions.values())
    grown = {}
    for name, state in partitions.items():
        if state.is_assigned:
            continue
        replicas = list(state.replicas)
        while len(replicas) < replication_factor and (able := brokers.keys() - set(replicas)):
            added = _best(able, replicas, brokers, kept)
            replicas.append(added)
            kept[added] += 1
        if len(replicas) > len(state.replicas):
            first = min(replicas, key=lambda replica: (preferred[replica] - (replica == state.replicas[0]), replicas.index(replica)))
            preferred[state.replicas[0]] -= 1
            preferred[first] += 1
            replicas.sort(key=lambda replica: replica != first)
            grown[name] = state._replace(replicas=tuple(replicas))
    return grown


def _best(able: AbstractSet[int], replicas: list[int], brokers: Mapping[int, str | None], kept: Counter[int]) -> int:
    """In a rack of its own if possible, then where the fewest are."""
    racks = {brokers.get(replica) for replica in replicas} - {None}
    return min(able, key=lambda broker: (brokers[broker] in racks, kept[broker], broker))
