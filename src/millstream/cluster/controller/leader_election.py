"""Who leads a partition, and who may, when replicas come and go: one pure rule for one partition (KIP-966, as Kafka 4 has it).

    1. from the in-sync replicas, in the order of the replicas; who leads already goes on leading
    2. from the eligible leaders: the in-sync set became too small to commit anything, so they have everything committed
    3. if both sets are empty: the last leader. Nothing of them is left that could know more
    4. only where unclean elections are allowed: any replica that is alive; one that is just being added, and may have next to nothing,
       only if there is no other (Kafka asks the target of a reassignment first)

The leader epoch goes up with every change of the leader, and when the leader came back without what it had; with nothing else: a change of
the in-sync set interrupts no one.
"""

from collections.abc import Collection, Container
from typing import NamedTuple

from millstream.coordination.partition_state import NO_LEADER, PartitionState


class ElectionRules(NamedTuple):
    """What the options of a topic say about elections."""

    min_insync_replicas: int = 1
    allows_unclean: bool = False


def changed_replicas(
    state: PartitionState,
    *,
    in_sync: Collection[int],
    alive: Container[int],
    rules: ElectionRules,
    lost: Collection[int] = (),
    prefers_first: bool = False,
) -> PartitionState:
    """The state when only `in_sync` are in sync, and those that are `lost` came back without what they had.

    `alive` are those that may lead. `prefers_first`: the preferred leader takes over if it is in sync.
    """
    kept = tuple(replica for replica in state.in_sync_replicas if replica in in_sync)
    joined = tuple(replica for replica in state.replicas if replica in in_sync and replica not in kept)
    target = kept + joined
    eligible = _eligible(state, target, rules=rules, lost=lost)
    leader = _leader(state, target, eligible, alive=alive, rules=rules, prefers_first=prefers_first)
    if leader != NO_LEADER and leader not in target:
        # Whoever leads from outside of the in-sync set begins it anew: what the others have beyond it is cut off.
        target = (leader,)
        eligible = tuple(replica for replica in eligible if replica != leader)
    if len(target) >= _effective_minimum(state, rules):
        eligible = ()
    return state._replace(
        leader=leader,
        leader_epoch=state.leader_epoch + (leader != state.leader or leader in lost),
        in_sync_replicas=target,
        eligible_leaders=eligible,
        last_leader=NO_LEADER if leader != NO_LEADER else _last_leader(state),
    )


def _effective_minimum(state: PartitionState, rules: ElectionRules) -> int:
    """A partition with fewer replicas than `min.insync.replicas` is full when all are in sync."""
    return min(rules.min_insync_replicas, len(state.replicas))


def _last_leader(state: PartitionState) -> int:
    return state.last_leader if state.leader == NO_LEADER else state.leader


def _eligible(state: PartitionState, target: Collection[int], *, rules: ElectionRules, lost: Collection[int]) -> tuple[int, ...]:
    if len(target) >= _effective_minimum(state, rules):
        return ()
    had_all = {*state.in_sync_replicas, *state.eligible_leaders}
    return tuple(replica for replica in state.replicas if replica in had_all and replica not in target and replica not in lost)


def _leader(
    state: PartitionState,
    target: Collection[int],
    eligible: Collection[int],
    *,
    alive: Container[int],
    rules: ElectionRules,
    prefers_first: bool,
) -> int:
    candidates = [replica for replica in state.replicas if replica in target and replica in alive]
    if state.leader in candidates and not (prefers_first and candidates[0] == state.preferred_leader):
        return state.leader
    if candidates:
        return candidates[0]
    for replica in state.replicas:
        if replica in eligible and replica in alive:
            return replica
    if not target and not eligible:
        last = _last_leader(state)
        if last in alive:
            return last
    if rules.allows_unclean:
        able = [replica for replica in state.replicas if replica in alive]
        return min(able, key=lambda replica: replica in state.adding_replicas, default=NO_LEADER)
    return NO_LEADER
