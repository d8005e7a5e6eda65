"""Who may speak for a member of a KIP-848 group: ids, instance ids and epochs. Kafka's errors in Kafka's words; nothing is changed here.

UNKNOWN_MEMBER_ID         no such member (its session ended, or it never joined): join again
FENCED_MEMBER_EPOCH       the member is somewhere else than the coordinator: give everything up and join again
UNRELEASED_INSTANCE_ID    a static member cannot join while another one with its instance id is alive (classic members just take over)
FENCED_INSTANCE_ID        another member has taken over the instance id
STALE_MEMBER_EPOCH        a commit or fetch of offsets with an epoch that is not the member's: heartbeat first
ILLEGAL_GENERATION        the same to a member of the classic protocol
GROUP_MAX_SIZE_REACHED    the group is full
"""

from millstream.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from millstream.groups.commands import ConsumerHeartbeat
from millstream.groups.consumer.group_state import ConsumerGroupState
from millstream.groups.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember
from millstream.groups.consumer.reconciliation import KNOWN_STATES, as_sets


def admit(
    state: ConsumerGroupState, command: ConsumerHeartbeat, *, member_id: str, limit: int
) -> tuple[ConsumerMember | None, ConsumerMember | None]:
    """The member that is meant, and the static member whose place it takes; both None for a new member."""
    is_joining = command.member_epoch == JOIN_EPOCH
    existing = state.members.get(member_id)
    if command.instance_id is not None:
        holder = state.members.get(state.static_members.get(command.instance_id, ""))
        if is_joining and holder is not None and holder.member_id != member_id:
            _check_released(holder, member_id, command.instance_id)
            return None, holder
        if not is_joining:
            existing = _holder(holder, member_id, command.instance_id)
    if not is_joining:
        existing = known_member(state, member_id)
        _check_epoch(existing, command)
    elif existing is None and len(state.members) >= limit:
        raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {limit} members.")
    return existing, None


def leaver(state: ConsumerGroupState, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that leaves, or is removed; its epoch does not matter."""
    if instance_id is None:
        return known_member(state, member_id)
    return held_by(state, member_id, instance_id)


def held_by(state: ConsumerGroupState, member_id: str, instance_id: str) -> ConsumerMember:
    """The static member of that instance id, if it is the one who asks."""
    return _holder(state.members.get(state.static_members.get(instance_id, "")), member_id, instance_id)


def known_member(state: ConsumerGroupState, member_id: str) -> ConsumerMember:
    """The member of that id."""
    member = state.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"Member {member_id} is not a member of group {state.group_id}.")
    return member


def check_current(member: ConsumerMember, epoch: int) -> None:
    """The epoch of a commit or fetch has to be the member's own."""
    known = member.current.member_epoch
    if epoch != known and member.metadata.classic is not None:
        raise IllegalGeneration(f"The received generation id {epoch} does not match the expected member epoch {known}.")
    if epoch != known:
        raise StaleMemberEpoch(f"The received member epoch {epoch} does not match the expected member epoch {known}.")


def _holder(holder: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """The static member, if it is the one who asks."""
    if holder is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise FencedInstanceId(f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.")
    return holder


def _check_released(holder: ConsumerMember, member_id: str, instance_id: str) -> None:
    if holder.current.member_epoch != STATIC_LEAVE_EPOCH and holder.metadata.classic is None:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned by "
            f"{holder.member_id} member."
        )


def _check_epoch(member: ConsumerMember, command: ConsumerHeartbeat) -> None:
    """The epoch has to be the member's, or the one before if the answer that raised it may have been lost."""
    received, known = command.member_epoch, member.current.member_epoch
    if member.current.state not in KNOWN_STATES and command.topic_partitions != ():
        raise FencedMemberEpoch("The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.")
    if received == known:
        return
    if received < known and received == member.current.previous_member_epoch and command.topic_partitions is not None:
        assigned = as_sets(member.current.assigned)
        if all(set(numbers) <= assigned.get(topic_id, frozenset()) for topic_id, numbers in command.topic_partitions):
            return
    comparison = "greater" if received > known else "smaller"
    raise FencedMemberEpoch(
        f"The consumer group member has a {comparison} member epoch ({received}) than the one known by the group coordinator ({known}). "
        "The member must abandon all its partitions and rejoin."
    )
