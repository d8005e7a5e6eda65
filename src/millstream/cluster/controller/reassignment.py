"""Moving a partition to other brokers (KIP-455): what its state is while that is under way, and when it is over. Pure.

    begun       replicas = the target, then those that go; `adding_replicas` were not there before, `removing_replicas` go in the end
    completed   when all of the target are in sync: only they are replicas and in sync, and one of them leads
    reverted    (cancelled) those that were added go again

A second request while one is under way replaces its target. `adding_replicas` still are all that were not there before the first, so that
it can be cancelled; one that is not wanted any more is in both lists. (Kafka 4 forgets what there was before the first request.)

Nothing acknowledged depends on who goes: whatever is committed is on all in-sync replicas, and at least one of them stays. The leader epoch
goes up when a replica goes, as in Kafka: what that one still sends is of a former epoch.
"""

from collections.abc import Collection, Sequence

from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from millstream.topic_partition import TopicPartition


def check_target(
    name: TopicPartition, state: PartitionState, target: Sequence[int], *, registered: Collection[int], may_grow: bool
) -> None:
    """Raise unless the partition can be on these brokers, which may be away for now; `may_grow`: in another number, too."""
    if not target:
        raise InvalidReplicaAssignment(f"{name} needs at least one replica, and the list of brokers is empty")
    unknown = sorted(set(target) - set(registered))
    if unknown:
        raise InvalidReplicaAssignment(f"{name} cannot be on {list(target)}: no broker is registered with the number {unknown[0]}")
    if len(set(target)) < len(target):
        raise InvalidReplicaAssignment(f"{name} cannot be on {list(target)}: a broker is named twice")
    present = len(state.target_replicas)
    if not may_grow and len(target) != present:
        raise InvalidReplicationFactor(
            f"{name} has {present} replica(s) and would have {len(target)}: the request does not allow another replication factor"
        )


def begun(state: PartitionState, target: Sequence[int]) -> PartitionState:
    """The state when the partition is on its way to `target`; nothing is to be done if that is where it is."""
    wanted = set(target)
    original = set(state.replicas).difference(state.adding_replicas)
    removing = sorted(set(state.replicas) - wanted)
    adding = sorted({*state.adding_replicas, *wanted} - original)
    if not removing and not adding and tuple(target) == state.replicas and not state.is_reassigning:
        return state
    return state._replace(replicas=(*target, *removing), adding_replicas=tuple(adding), removing_replicas=tuple(removing), is_assigned=True)


def completed(state: PartitionState, in_sync: Collection[int]) -> PartitionState | None:
    """The state without its reassignment, if all of the target are in sync; without a leader, if that goes."""
    target = state.target_replicas
    if not state.is_reassigning or not set(target) <= set(in_sync):
        return None
    return _kept_by(state, target)


def reverted(name: TopicPartition, state: PartitionState, *, allows_unclean: bool) -> PartitionState:
    """The state without what the reassignment added; without a leader, if that goes.

    InvalidReplicaAssignment if only replicas that were added are known to have everything, and an unclean election is not allowed.
    """
    original = tuple(replica for replica in state.replicas if replica not in state.adding_replicas)
    before = _kept_by(state, original)
    knows_everything = before.in_sync_replicas or (not state.in_sync_replicas and _may_lead(state, before))
    if not knows_everything and not allows_unclean:
        raise InvalidReplicaAssignment(
            f"the reassignment of {name} cannot be cancelled: of {list(original)} none is in sync, so this would be an unclean election"
        )
    return before


def _may_lead(state: PartitionState, before: PartitionState) -> bool:
    """Whether, with no replica in sync, one of those that stay could lead as well as one of those that go."""
    return bool(before.eligible_leaders) or (not state.eligible_leaders and before.last_leader != NO_LEADER)


def with_epoch_of_removal(before: PartitionState, decided: PartitionState) -> PartitionState:
    """`decided`, in another leader epoch than `before` if a replica went."""
    if decided.leader_epoch > before.leader_epoch or set(before.replicas) <= set(decided.replicas):
        return decided
    return decided._replace(leader_epoch=before.leader_epoch + 1)


def _kept_by(state: PartitionState, replicas: Sequence[int]) -> PartitionState:
    """Without a leader, if that is not among them; then any that has everything counts as the last one, should it lose that."""
    kept = set(replicas)
    in_sync = tuple(replica for replica in state.in_sync_replicas if replica in kept)
    eligible = tuple(replica for replica in state.eligible_leaders if replica in kept)
    is_led = state.leader in kept
    last = state.last_leader if is_led or state.last_leader in kept else next(iter(in_sync + eligible), NO_LEADER)
    return state._replace(
        replicas=tuple(replicas),
        leader=state.leader if is_led else NO_LEADER,
        in_sync_replicas=in_sync,
        eligible_leaders=eligible,
        last_leader=last,
        adding_replicas=(),
        removing_replicas=(),
    )
