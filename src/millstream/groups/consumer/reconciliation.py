"""How a member of a KIP-848 group gets from what it has to what it should have: one step per heartbeat.

    STABLE                  has all of the target of its epoch, and nothing else
    UNREVOKED_PARTITIONS    has to give partitions up and has not said yet that it did; it stays in its epoch until then
    UNRELEASED_PARTITIONS   is in the epoch of the target, but other members still hold some of its partitions

A partition belongs to the member whose assigned or to-be-revoked partitions contain it, and to no other: it is given to a member only
when `is_free` says so, that is when its former owner reported a set without it, left, or was fenced. What a member owns is what it
reports; a heartbeat that reports nothing (None) releases nothing.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import Final
from uuid import UUID

from millstream.groups.consumer.assignors import canonical
from millstream.groups.consumer.records import Assignment, CurrentAssignment


class MemberState(IntEnum):
    """The states, as Kafka numbers them in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


KNOWN_STATES: Final = frozenset(MemberState)


class Target:
    """What a member should have, and how to find out what it may have by now."""

    __slots__ = ("assignment", "epoch", "is_free", "subscribed_ids", "subscription_changed")

    def __init__(
        self,
        assignment: Assignment,
        epoch: int,
        *,
        subscribed_ids: AbstractSet[UUID],
        subscription_changed: bool,
        is_free: Callable[[UUID, int], bool],
    ) -> None:
        self.assignment = assignment
        self.epoch = epoch
        self.subscribed_ids = subscribed_ids
        self.subscription_changed = subscription_changed
        self.is_free = is_free
        """Whether no other member has the partition."""


def reconcile(current: CurrentAssignment, target: Target, *, owned: Assignment | None) -> CurrentAssignment:
    """The next state of the member; the same one if there is nothing to do or nothing can be done yet."""
    match current.state:
        case MemberState.STABLE:
            if current.member_epoch != target.epoch:
                return _towards(current, target, owned=owned)
            return _without_unsubscribed(current, target, owned=owned)
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(current.pending_revocation, owned):
                return _without_unsubscribed(current, target, owned=owned)
            return _towards(current, target, owned=owned)
        case MemberState.UNRELEASED_PARTITIONS:
            return _towards(current, target, owned=owned)
        case _:
            # Written by a later version of Kafka; the member was only let in because it has nothing.
            return _towards(current._replace(member_epoch=target.epoch), target, owned=owned)


def _still_owns(partitions: Assignment, owned: Assignment | None) -> bool:
    """Whether the member has not said yet that it gave all of the partitions up."""
    if owned is None:
        return True
    reported = as_sets(owned)
    return any(not reported[topic_id].isdisjoint(numbers) for topic_id, numbers in partitions if topic_id in reported)


def _towards(current: CurrentAssignment, target: Target, *, owned: Assignment | None) -> CurrentAssignment:
    """Keep what is in both, give up what is only in the present, and take what is only in the target and free."""
    if current.assigned == target.assignment and all(topic_id in target.subscribed_ids for topic_id, _ in target.assignment):
        # Most members keep what they have when another one comes or goes.
        return _moved(current, target.epoch, MemberState.STABLE, assigned=current.assigned, pending=())
    wanted = {topic_id: frozenset(numbers) for topic_id, numbers in target.assignment if topic_id in target.subscribed_ids}
    held = as_sets(current.assigned)
    nothing: frozenset[int] = frozenset()
    kept = {topic_id: numbers & wanted.get(topic_id, nothing) for topic_id, numbers in held.items()}
    revoked = canonical({topic_id: numbers - kept[topic_id] for topic_id, numbers in held.items()})
    if revoked and _still_owns(revoked, owned):
        return _moved(current, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, assigned=canonical(kept), pending=revoked)
    is_unreleased = False
    for topic_id, numbers in wanted.items():
        missing = numbers - kept.get(topic_id, nothing)
        free = frozenset(number for number in missing if target.is_free(topic_id, number))
        is_unreleased = is_unreleased or len(free) < len(missing)
        kept[topic_id] = kept.get(topic_id, nothing) | free
    state = MemberState.UNRELEASED_PARTITIONS if is_unreleased else MemberState.STABLE
    return _moved(current, target.epoch, state, assigned=canonical(kept), pending=())


def _without_unsubscribed(current: CurrentAssignment, target: Target, *, owned: Assignment | None) -> CurrentAssignment:
    """A member that changes its subscription gives up at once what it no longer wants, before there is a new target, as in Kafka 4.2."""
    if not target.subscription_changed or all(topic_id in target.subscribed_ids for topic_id, _ in current.assigned):
        return current
    pending = {topic_id: set(numbers) for topic_id, numbers in current.pending_revocation}
    kept = {}
    for topic_id, numbers in current.assigned:
        if topic_id in target.subscribed_ids:
            kept[topic_id] = set(numbers)
        else:
            pending.setdefault(topic_id, set()).update(numbers)
    revoked = canonical(pending)
    if _still_owns(revoked, owned):
        return current._replace(state=int(MemberState.UNREVOKED_PARTITIONS), assigned=canonical(kept), pending_revocation=revoked)
    return current._replace(assigned=canonical(kept))


def _moved(current: CurrentAssignment, epoch: int, state: MemberState, *, assigned: Assignment, pending: Assignment) -> CurrentAssignment:
    """The member after a step; its previous epoch is the one it came from, even if it is the same, as in Kafka's records."""
    return CurrentAssignment(epoch, current.member_epoch, int(state), assigned, pending)


def as_sets(partitions: Assignment) -> dict[UUID, frozenset[int]]:
    """The same partitions, to look them up."""
    return {topic_id: frozenset(numbers) for topic_id, numbers in partitions}
