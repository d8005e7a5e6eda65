"""How a KIP-848 group comes from one target to the next: its records, epochs and timers, whoever made the change.

The requests of members are in `group`, those of members that speak the classic protocol in `classic_members`.

Members go by their own wish, by that of an operator, or because a timer ran out: their session; the time to give up partitions that are
to be revoked; for a classic member the time to join again after it heard of a rebalance, and the time to send SyncGroup after its
JoinGroup. If only classic members are left then, the group turns into a classic one, where `group.consumer.migration.policy` allows it
(`group_migration`): `successor` is what it has become, and the coordinator puts that in its place.
"""

import logging
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from uuid import uuid4

from millstream.coordinator_shard import CoordinatorRecord, Outcome
from millstream.groups import silence
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.consumer.assignors import ASSIGNORS, Candidate
from millstream.groups.consumer.group_state import ConsumerGroupState, in_order
from millstream.groups.consumer.heartbeat_check import available_assignors
from millstream.groups.consumer.member import ConsumerMember, MigratedMember
from millstream.groups.consumer.reconciliation import MemberState, Target, reconcile
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
    consumer_record,
    former_subscription_metadata_tombstone,
)
from millstream.groups.consumer.subscriptions import NO_HASH, ConsumerSubscriptions
from millstream.groups.consumer.topic_patterns import MatchingBudget
from millstream.groups.group_migration import downgraded
from millstream.groups.settings import GroupSettings
from millstream.groups.topic_image import TopicImage

logger = logging.getLogger(__name__)

_SCAN_INTERVAL_MS = 5
_SUBSCRIPTION_RECORDS = frozenset((ConsumerRecordType.MEMBER_METADATA, ConsumerRecordType.REGULAR_EXPRESSION))


def random_member_id() -> str:
    """An id for a member that brings none, in the form that Kafka gives it."""
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()


class ConsumerRebalance:
    """State, members and timers of a KIP-848 group."""

    __slots__ = ("_deadline_ms", "_scan_due_ms", "group_id", "new_member_id", "settings", "state", "subscriptions", "successor")

    def __init__(
        self,
        group_id: str,
        settings: GroupSettings,
        *,
        budget: MatchingBudget,
        new_member_id: Callable[[], str],
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.new_member_id = new_member_id
        self.state = ConsumerGroupState(group_id)
        self.subscriptions = ConsumerSubscriptions(self.state, budget=budget)
        self._deadline_ms: int | None = None
        """Not later than the first deadline of a member."""
        self._scan_due_ms: int | None = None
        self.successor: ClassicGroup | None = None
        """The classic group that this one has become; it is not used any more then."""

    # --- records --------------------------------------------------------------------------------------------------------------------------

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Replay a record. Kafka writes partitions in no order; here they always have one, so that equal assignments are equal."""
        self._apply(key, in_order(value))

    def _apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        self.state.apply(key, value)
        if key.record_type in _SUBSCRIPTION_RECORDS:
            self.subscriptions.invalidate()

    def write(self, outcome: Outcome, record_type: ConsumerRecordType, value: ConsumerValue | None, *, name: str = "") -> None:
        """Write a record, and apply it."""
        key = ConsumerKey(record_type, self.group_id, name)
        self._apply(key, value)
        outcome.write(consumer_record(key, value))

    def tombstones(self) -> list[CoordinatorRecord]:
        """Delete everything durable of the group, in Kafka's order."""
        state = self.state
        keys = [(ConsumerRecordType.CURRENT_ASSIGNMENT, name) for name in state.members]
        keys += [(ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, name) for name in state.target]
        keys += [(ConsumerRecordType.TARGET_ASSIGNMENT, "")]
        keys += [(ConsumerRecordType.MEMBER_METADATA, name) for name in state.members]
        keys += [(ConsumerRecordType.REGULAR_EXPRESSION, name) for name in state.expressions]
        records = [consumer_record(ConsumerKey(record_type, self.group_id, name), None) for record_type, name in keys]
        records.append(former_subscription_metadata_tombstone(self.group_id))
        records.append(consumer_record(ConsumerKey(ConsumerRecordType.GROUP_METADATA, self.group_id), None))
        return records

    # --- members --------------------------------------------------------------------------------------------------------------------------

    def take_over(self, members: Sequence[MigratedMember], *, epoch: int, is_rebalancing: bool, now_ms: int) -> Outcome:
        """Become what a classic group was in its generation `epoch`: every member has what its leader gave it.

        If that is not what it should have by now, the group is one that no topics were assigned in yet: the next heartbeat does it. Kafka
        relies on the member that converts the group to bring another subscription, which a static member does not.
        """
        outcome = Outcome()
        for member in members:
            self.write(outcome, ConsumerRecordType.MEMBER_METADATA, member.metadata, name=member.member_id)
        is_settled = not is_rebalancing and self._is_all_held_as_assigned(members)
        metadata_hash = self.subscriptions.metadata_hash() if is_settled else NO_HASH
        self.write(outcome, ConsumerRecordType.GROUP_METADATA, GroupEpoch(epoch, metadata_hash))
        for member in members:
            self.write(outcome, ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, TargetAssignment(member.assigned), name=member.member_id)
        self.write(outcome, ConsumerRecordType.TARGET_ASSIGNMENT, TargetAssignmentEpoch(epoch))
        for member in members:
            current = CurrentAssignment(epoch, epoch, int(MemberState.STABLE), member.held, ())
            self.write(outcome, ConsumerRecordType.CURRENT_ASSIGNMENT, current, name=member.member_id)
            self.extend_session(self.state.members[member.member_id], now_ms)
        return outcome

    def _is_all_held_as_assigned(self, members: Sequence[MigratedMember]) -> bool:
        """Whether every partition of the topics that they read was given to exactly one of the members, and none has anything else."""
        if any(member.held != member.assigned for member in members):
            return False
        assigned = [(topic_id, number) for member in members for topic_id, numbers in member.assigned for number in numbers]
        counts = self.subscriptions.partition_counts()
        return len(assigned) == sum(counts.values()) and set(assigned) == {
            (topic_id, number) for topic_id, count in counts.items() for number in range(count)
        }

    def replace(self, old: ConsumerMember, member_id: str, outcome: Outcome) -> None:
        """A static member is back with another member id: it takes over what the old one had."""
        target = self.state.target.get(old.member_id, ())
        current = old.current._replace(member_epoch=0, previous_member_epoch=0)
        metadata = old.metadata
        self._remove(old, outcome)
        self.write(outcome, ConsumerRecordType.MEMBER_METADATA, metadata, name=member_id)
        self.write(outcome, ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, TargetAssignment(target), name=member_id)
        self.write(outcome, ConsumerRecordType.CURRENT_ASSIGNMENT, current, name=member_id)

    def fence(self, members: Collection[ConsumerMember], outcome: Outcome, *, now_ms: int) -> None:
        """Members are out, by their own wish or not; the others get what they had."""
        if self._becomes_classic(members, outcome, now_ms=now_ms):
            return
        expressions = set()
        for member in members:
            expressions.add(member.metadata.subscribed_topic_regex)
            self._remove(member, outcome)
        for expression in sorted(filter(None, expressions)):
            self.forget_expression(expression, outcome)
        self.bump(outcome)
        if not self.state.members:
            logger.info("group %s has no members any more", self.state.group_id)

    def _becomes_classic(self, leaving: Collection[ConsumerMember], outcome: Outcome, *, now_ms: int) -> bool:
        """Turn into a classic group that rebalances, if only classic members are left and that is allowed."""
        is_left = len(self.state.members) > len(leaving)
        if not is_left or not self.settings.allows_downgrade or not self.are_all_classic_except(leaving):
            return False
        return self.downgrade(leaving, outcome, needs_rebalance=True, now_ms=now_ms)

    def are_all_classic_except(self, leaving: Collection[ConsumerMember]) -> bool:
        """Whether all others speak the classic protocol."""
        classic = sum(member.metadata.classic is not None for member in leaving)
        return self.state.classic_count - classic == len(self.state.members) - len(leaving)

    def downgrade(self, leaving: Collection[ConsumerMember], outcome: Outcome, *, needs_rebalance: bool, now_ms: int) -> bool:
        """Turn into a classic group of those who stay; False if they cannot be one."""
        gone = {member.member_id for member in leaving}
        staying = [member for member in self.state.members.values() if member.member_id not in gone]
        group = downgraded(self.state, staying, image=self.subscriptions.image, settings=self.settings, now_ms=now_ms)
        if group is None:
            return False
        outcome.records += self.tombstones()
        outcome.write(group.generation.record())
        if needs_rebalance:
            group.rebalance(outcome, now_ms=now_ms)
        self.successor = group
        return True

    def _remove(self, member: ConsumerMember, outcome: Outcome) -> None:
        for record_type in (
            ConsumerRecordType.CURRENT_ASSIGNMENT,
            ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER,
            ConsumerRecordType.MEMBER_METADATA,
        ):
            self.write(outcome, record_type, None, name=member.member_id)

    # --- expressions ----------------------------------------------------------------------------------------------------------------------

    def change_expression(self, dropped: str | None, metadata: MemberMetadata, outcome: Outcome) -> bool:
        """Whether that needs a new target by itself: what is still to be matched will ask for one when it is."""
        if dropped:
            self.forget_expression(dropped, outcome)
        expression = metadata.subscribed_topic_regex
        if not expression or expression in self.state.expressions:
            return True
        self.subscriptions.start_scan(expression)
        return False

    def forget_expression(self, expression: str, outcome: Outcome) -> None:
        """Stop matching an expression that no member subscribes with any more."""
        if self.state.subscribers_of(expression) == 0:
            self.subscriptions.stop_scan(expression)
            if expression in self.state.expressions:
                self.write(outcome, ConsumerRecordType.REGULAR_EXPRESSION, None, name=expression)

    def scan(self, outcome: Outcome, now_ms: int) -> bool:
        """Match expressions as far as the budget goes; whether one of them now stands for other topics."""
        if not self.subscriptions.has_scans():
            return False
        changed = False
        for expression, topics in self.subscriptions.scanned(now_ms):
            before = self.state.expressions.get(expression)
            if before is None or before.topics != topics:
                resolved = RegularExpression(topics, 0 if before is None else before.version + 1, now_ms)
                self.write(outcome, ConsumerRecordType.REGULAR_EXPRESSION, resolved, name=expression)
                changed = changed or topics != (() if before is None else before.topics)
        self._scan_due_ms = now_ms + _SCAN_INTERVAL_MS if self.subscriptions.has_scans() else None
        return changed

    # --- target and reconciliation --------------------------------------------------------------------------------------------------------

    def bump(self, outcome: Outcome) -> None:
        """Something changed that needs a new target: the group epoch goes up."""
        value = GroupEpoch(self.state.epoch + 1, self.subscriptions.metadata_hash())
        self.write(outcome, ConsumerRecordType.GROUP_METADATA, value)

    def compute_target(self, outcome: Outcome) -> None:
        """A new target for every member: the target epoch follows the group epoch."""
        state = self.state
        candidates = {
            member_id: Candidate(
                member.metadata.instance_id, self.subscriptions.topic_ids(member.metadata), state.target.get(member_id, ())
            )
            for member_id, member in state.members.items()
        }
        assignment = ASSIGNORS[self.assignor_name](candidates, self.subscriptions.partition_counts())
        for member_id, partitions in assignment.items():
            if partitions != state.target.get(member_id):
                self.write(outcome, ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, TargetAssignment(partitions), name=member_id)
        self.write(outcome, ConsumerRecordType.TARGET_ASSIGNMENT, TargetAssignmentEpoch(state.epoch))
        logger.info("group %s rebalanced: epoch %d, %d member(s)", state.group_id, state.epoch, len(state.members))

    @property
    def assignor_name(self) -> str:
        """The assignor that most members ask for, of those that there are; the first if none asks."""
        votes = Counter(member.metadata.server_assignor for member in self.state.members.values())
        return max(available_assignors(self.settings), key=lambda name: votes[name])

    def reconcile(
        self,
        member: ConsumerMember,
        outcome: Outcome,
        *,
        owned: Assignment | None,
        subscription_changed: bool,
        now_ms: int,
    ) -> None:
        """Let the member take a step from what it has to what it should have."""
        state = self.state
        if not subscription_changed and member.is_reconciled_to(state.target_epoch):
            return
        target = Target(
            state.target.get(member.member_id, ()),
            state.target_epoch,
            subscribed_ids=self.subscriptions.topic_ids(member.metadata),
            subscription_changed=subscription_changed,
            is_free=lambda topic_id, partition: state.owner(topic_id, partition) in (None, member.member_id),
        )
        current = reconcile(member.current, target, owned=owned)
        if current == member.current:
            return
        self.write(outcome, ConsumerRecordType.CURRENT_ASSIGNMENT, current, name=member.member_id)
        self._start_rebalance_timer(member, now_ms)

    # --- time -----------------------------------------------------------------------------------------------------------------------------
    def _start_rebalance_timer(self, member: ConsumerMember, now_ms: int) -> None:
        if member.metadata.classic is None and member.current.state == MemberState.UNREVOKED_PARTITIONS:
            member.rebalance_deadline_ms = now_ms + max(member.metadata.rebalance_timeout_ms, 0)
            self.watch(member.rebalance_deadline_ms)
        else:
            member.rebalance_deadline_ms = None

    def extend_session(self, member: ConsumerMember, now_ms: int) -> None:
        """The member has given a sign of life."""
        timeout_ms = self._session_timeout_ms(member)
        member.session_deadline_ms = now_ms + timeout_ms
        self.watch(silence.due_ms(member.session_deadline_ms, timeout_ms))

    def _session_timeout_ms(self, member: ConsumerMember) -> int:
        classic = member.metadata.classic
        return self.settings.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms

    def _report_silence(self, now_ms: int) -> int | None:
        """Say who has been silent for long; answers when to look again."""
        next_ms = []
        for member in self.state.members.values():
            deadline_ms, timeout_ms = member.session_deadline_ms, self._session_timeout_ms(member)
            if deadline_ms is None or deadline_ms == member.reported_deadline_ms:
                continue
            if (due_ms := silence.due_ms(deadline_ms, timeout_ms)) > now_ms:
                next_ms.append(due_ms)
            else:
                silence.report(self.state.group_id, member.member_id, deadline_ms=deadline_ms, timeout_ms=timeout_ms, now_ms=now_ms)
                member.reported_deadline_ms = deadline_ms
        return min(next_ms, default=None)

    def watch(self, deadline_ms: int) -> None:
        """Something becomes due then."""
        if self._deadline_ms is None or deadline_ms < self._deadline_ms:
            self._deadline_ms = deadline_ms

    def loaded(self, now_ms: int) -> Outcome:
        """Give every member its time again; a new session for all, since none could reach the coordinator."""
        for member in self.state.members.values():
            self.extend_session(member, now_ms)
            self._start_rebalance_timer(member, now_ms)
        return Outcome()

    def tick(self, now_ms: int) -> Outcome:
        """Fence whoever is overdue, and go on matching expressions."""
        outcome = Outcome()
        if self._scan_due_ms is not None and now_ms >= self._scan_due_ms and self.scan(outcome, now_ms):
            self.bump(outcome)
        if self._deadline_ms is not None and now_ms >= self._deadline_ms:
            deadlines = {member.member_id: member.deadline_ms() for member in self.state.members.values()}
            due = [
                self.state.members[member_id] for member_id, deadline in deadlines.items() if deadline is not None and deadline <= now_ms
            ]
            for member in due:
                logger.info("group %s: %s expired, without a sign of life or progress in time", self.state.group_id, member.member_id)
            if due:
                self.fence(due, outcome, now_ms=now_ms)
            self._deadline_ms = min(
                (deadline for deadline in deadlines.values() if deadline is not None and deadline > now_ms), default=None
            )
            if (silence_ms := self._report_silence(now_ms)) is not None:
                self.watch(silence_ms)
        return outcome

    def next_deadline_ms(self) -> int | None:
        """When to tick next, or earlier."""
        if self._scan_due_ms is None or (self._deadline_ms is not None and self._deadline_ms < self._scan_due_ms):
            return self._deadline_ms
        return self._scan_due_ms

    def topics_changed(self, image: TopicImage, *, now_ms: int, changed: Collection[str] | None = None) -> Outcome:
        """If subscribed topics came, went or grew, a new target is needed; it is computed with the next heartbeat."""
        outcome = Outcome()
        is_affected = self.subscriptions.change_image(image, changed=changed)
        if self.state.members:
            has_matched = self.scan(outcome, now_ms)
            if has_matched or (is_affected and self.subscriptions.metadata_hash() != self.state.metadata_hash):
                self.bump(outcome)
        return outcome
