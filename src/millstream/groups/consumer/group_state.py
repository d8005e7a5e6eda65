"""What the records of a KIP-848 group add up to. `apply` is the only way it changes, in replay as in operation.

    3   metadata                  group epoch (+ 1 with every change that needs a new target), hash of the subscribed topics
    5   member                    subscription, instance id, rebalance timeout ...
    6   target assignment         the group epoch that the target was computed for
    7   target assignment, member
    8   current assignment        the member's own epoch, what it has and what it has to give up
    16  regular expression        the topics it matched

Derived and never written: who owns each partition, which member has an instance id, how many speak the classic protocol. Always true: a
partition has at most one owner; a member's epoch is at most the target's epoch, that at most the group's. A record about a member that is
not there is passed over unless it makes the member (Kafka's order: the member's own record comes first and is deleted last).
"""

from collections import Counter
from typing import assert_never
from uuid import UUID

from millstream.groups.consumer.assignors import canonical
from millstream.groups.consumer.member import NOT_ASSIGNED, ConsumerMember
from millstream.groups.consumer.records import (
    Assignment,
    ConsumerKey,
    ConsumerRecordType,
    ConsumerValue,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    RegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
)


class ConsumerGroupState:
    """Epochs, members, target and ownership of one group."""

    __slots__ = (
        "classic_count",
        "classic_protocols",
        "epoch",
        "expressions",
        "group_id",
        "is_deleted",
        "members",
        "metadata_hash",
        "owners",
        "static_members",
        "target",
        "target_epoch",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.is_deleted = False
        """Whether the last that was heard of its metadata is that they were deleted."""
        self.epoch = 0
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.target_epoch = 0
        self.target: dict[str, Assignment] = {}
        self.expressions: dict[str, RegularExpression] = {}
        self.owners: dict[UUID, dict[int, str]] = {}
        self.classic_count = 0
        """How many members speak the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """How many of them offer each way of assigning partitions."""

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Take one record into account; None deletes."""
        match value:
            case None:
                self._delete(key.record_type, key.name)
            case GroupEpoch():
                self.is_deleted, self.epoch, self.metadata_hash = False, value.epoch, value.metadata_hash
            case MemberMetadata():
                self._set_member(key.name, value)
            case TargetAssignmentEpoch():
                self.target_epoch = value.assignment_epoch
            case TargetAssignment():
                self.target[key.name] = value.partitions
            case CurrentAssignment():
                self._set_current(key.name, value)
            case RegularExpression():
                self.expressions[key.name] = value
            case _:
                assert_never(value)

    def _delete(self, record_type: ConsumerRecordType, name: str) -> None:
        match record_type:
            case ConsumerRecordType.GROUP_METADATA:
                self.is_deleted, self.epoch, self.metadata_hash = True, 0, 0
            case ConsumerRecordType.MEMBER_METADATA:
                self._remove_member(name)
            case ConsumerRecordType.TARGET_ASSIGNMENT:
                self.target_epoch = 0
            case ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER:
                self.target.pop(name, None)
            case ConsumerRecordType.CURRENT_ASSIGNMENT:
                if name in self.members:
                    self._set_current(name, NOT_ASSIGNED)
            case ConsumerRecordType.REGULAR_EXPRESSION:
                self.expressions.pop(name, None)
            case _:
                assert_never(record_type)

    def _set_member(self, member_id: str, metadata: MemberMetadata) -> None:
        member = self.members.get(member_id)
        if member is None:
            self.members[member_id] = ConsumerMember(member_id, metadata)
        else:
            self._forget_instance(member)
            self._count_classic(member.metadata, -1)
            member.metadata = metadata
        self._count_classic(metadata, +1)
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._disown(member_id, member.current)
            self._forget_instance(member)
            self._count_classic(member.metadata, -1)

    def _count_classic(self, metadata: MemberMetadata, by: int) -> None:
        if metadata.classic is not None:
            self.classic_count += by
            for name in {name for name, _ in metadata.classic.protocols}:
                self.classic_protocols[name] += by

    def _forget_instance(self, member: ConsumerMember) -> None:
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _set_current(self, member_id: str, current: CurrentAssignment) -> None:
        member = self.members.get(member_id)
        if member is None:
            # After compaction the current assignment may stand before the younger metadata of its member.
            member = self.members[member_id] = ConsumerMember(member_id)
        former, member.current = member.current, current
        if former.assigned == current.assigned and former.pending_revocation == current.pending_revocation:
            return
        self._disown(member_id, former)
        for partitions in (current.assigned, current.pending_revocation):
            for topic_id, numbers in partitions:
                self.owners.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))

    def _disown(self, member_id: str, current: CurrentAssignment) -> None:
        for partitions in (current.assigned, current.pending_revocation):
            for topic_id, numbers in partitions:
                owners = self.owners.get(topic_id, {})
                for number in numbers:
                    if owners.get(number) == member_id:
                        del owners[number]
                if not owners:
                    self.owners.pop(topic_id, None)

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        """The member that has the partition or has not given it up yet."""
        owners = self.owners.get(topic_id)
        return None if owners is None else owners.get(partition)

    def subscribers_of(self, expression: str) -> int:
        """How many members subscribe with the expression."""
        return sum(member.metadata.subscribed_topic_regex == expression for member in self.members.values())


def in_order(value: ConsumerValue | None) -> ConsumerValue | None:
    """The same value with its partitions in the order that `canonical` gives them."""
    match value:
        case TargetAssignment():
            return TargetAssignment(_canonical(value.partitions))
        case CurrentAssignment():
            return value._replace(assigned=_canonical(value.assigned), pending_revocation=_canonical(value.pending_revocation))
        case _:
            return value


def _canonical(partitions: Assignment) -> Assignment:
    return canonical({topic_id: frozenset(numbers) for topic_id, numbers in partitions})
