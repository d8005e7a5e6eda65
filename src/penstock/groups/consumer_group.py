"""A group of the KIP-848 protocol: its members send one kind of request, a heartbeat, and the coordinator does everything else.

A heartbeat is worked on in three steps, each of which leaves records:

    1. the member is made or updated. A new subscription, a member that comes or goes, and topics that change need a new target: the *group
       epoch* goes up
    2. if the target is older than the group epoch, an assignor computes a new one for all members: the *target epoch* follows
    3. the member takes a step from what it has to what it should have (`reconciliation`): the *member epoch* follows

All members do the third step at their own pace, so that a slow one holds up only those that wait for its partitions. Commits and heartbeats
carry the member epoch; whoever comes with a wrong one is fenced or stale.

Everything that can be refused is refused before the first record: an error leaves no trace. `ConsumerGroupState` is what the records add up
to and changes by them only; the timers, the topics and what is found by expressions are kept here and in `ConsumerSubscriptions`.

What it does not do: it has no members that speak the classic protocol (Kafka's `group.consumer.migration.policy=disabled`; those that
a log of Kafka's brings along are kept until their session ends), and it does not ask whether a member may see a topic.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from uuid import uuid4

from penstock.errors import KafkaError, NonEmptyGroup, UnsupportedVersion
from penstock.groups.commands import CommitOffsets, ConsumerHeartbeat, LeaveGroup
from penstock.groups.consumer_admission import admit, check_current, known_member, leaver
from penstock.groups.consumer_answers import consumer_heartbeat_answer, consumer_heartbeat_error
from penstock.groups.consumer_description import describe
from penstock.groups.consumer_group_state import ConsumerGroupState, in_order
from penstock.groups.consumer_heartbeat_check import available_assignors, check_consumer_heartbeat
from penstock.groups.consumer_member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, UNKNOWN_MEMBER, ConsumerMember, updated
from penstock.groups.consumer_records import (
    Assignment,
    ConsumerKey,
    ConsumerRecordType,
    ConsumerValue,
    GroupEpoch,
    MemberMetadata,
    RegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
    consumer_record,
)
from penstock.groups.consumer_subscriptions import ConsumerSubscriptions
from penstock.groups.group import CONSUMER
from penstock.groups.outcome import Fields, GroupRecord, Outcome, Waiter
from penstock.groups.reconciliation import KNOWN_STATES, MemberState, Target, reconcile
from penstock.groups.settings import GroupSettings
from penstock.groups.target_assignment import chosen_assignor, compute_target
from penstock.groups.topic_image import TopicImage
from penstock.groups.topic_patterns import MatchingBudget, topic_pattern

_SCAN_INTERVAL_MS = 5
_SUBSCRIPTION_RECORDS = frozenset((ConsumerRecordType.MEMBER_METADATA, ConsumerRecordType.REGULAR_EXPRESSION))


def random_member_id() -> str:
    """An id for a member that brings none, in the form that Kafka gives it."""
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()


class ConsumerGroup:
    """The machine of one group; implements `group.ConsumerMachine`."""

    __slots__ = ("_deadline_ms", "_new_member_id", "_scan_due_ms", "_state", "_subscriptions", "group_id", "settings")

    group_type = CONSUMER
    protocol_type = "consumer"

    def __init__(
        self,
        group_id: str,
        settings: GroupSettings,
        *,
        budget: MatchingBudget | None = None,
        new_member_id: Callable[[], str] = random_member_id,
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self._new_member_id = new_member_id
        self._state = ConsumerGroupState(group_id)
        self._subscriptions = ConsumerSubscriptions(self._state, budget=budget or MatchingBudget())
        self._deadline_ms: int | None = None
        """Not later than the first deadline of a member."""
        self._scan_due_ms: int | None = None

    # --- records --------------------------------------------------------------------------------------------------------------------------

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Replay a record. Kafka writes partitions in no order; here they always have one, so that equal assignments are equal."""
        self._apply(key, in_order(value))

    def _apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        self._state.apply(key, value)
        if key.record_type in _SUBSCRIPTION_RECORDS:
            self._subscriptions.invalidate()

    def _write(self, outcome: Outcome, record_type: ConsumerRecordType, value: ConsumerValue | None, *, name: str = "") -> None:
        key = ConsumerKey(record_type, self.group_id, name)
        self._apply(key, value)
        outcome.write(consumer_record(key, value))

    def tombstones(self) -> list[GroupRecord]:
        """Delete everything durable of the group, in Kafka's order."""
        state = self._state
        keys = [(ConsumerRecordType.CURRENT_ASSIGNMENT, name) for name in state.members]
        keys += [(ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, name) for name in state.target]
        keys += [(ConsumerRecordType.TARGET_ASSIGNMENT, "")]
        keys += [(ConsumerRecordType.MEMBER_METADATA, name) for name in state.members]
        keys += [(ConsumerRecordType.REGULAR_EXPRESSION, name) for name in state.expressions]
        keys += [(ConsumerRecordType.GROUP_METADATA, "")]
        return [consumer_record(ConsumerKey(record_type, self.group_id, name), None) for record_type, name in keys]

    # --- the heartbeat --------------------------------------------------------------------------------------------------------------------

    def handle(self, command: ConsumerHeartbeat, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Decide a heartbeat; errors are answers."""
        outcome = Outcome()
        try:
            member = self._state.members.get(command.member_id)
            if member is not None and self._says_nothing_new(member, command):
                reply = self._carry_on(member, outcome, owned=command.topic_partitions, now_ms=now_ms)
            else:
                check_consumer_heartbeat(command, self.settings)
                if command.member_epoch < JOIN_EPOCH:
                    reply = self._leave(command, outcome, now_ms=now_ms)
                else:
                    reply = self._heartbeat(command, outcome, now_ms=now_ms)
        except KafkaError as error:
            outcome = Outcome()
            reply = consumer_heartbeat_error(error)
        outcome.reply(waiter, reply)
        return outcome

    def _says_nothing_new(self, member: ConsumerMember, command: ConsumerHeartbeat) -> bool:
        """Whether a heartbeat changes nothing of its member but perhaps what it owns: nearly all of them. No check could refuse it."""
        current = member.current
        metadata = member.metadata
        return (
            command.member_epoch == current.member_epoch
            and current.member_epoch > JOIN_EPOCH
            and current.state in KNOWN_STATES
            and command.subscribed_topic_names is None
            and command.subscribed_topic_regex is None
            and command.rebalance_timeout_ms < 0
            and command.server_assignor is None
            and command.rack_id is None
            and command.instance_id == metadata.instance_id
            and command.client_id == metadata.client_id
            and command.client_host == metadata.client_host
            and metadata.classic is None
            and not self._subscriptions.has_scans()
        )

    def _carry_on(self, member: ConsumerMember, outcome: Outcome, *, owned: Assignment | None, now_ms: int) -> Fields:
        """The second and third step of a heartbeat, whose first has nothing to do."""
        assigned_before = member.current.assigned
        if self._state.epoch > self._state.target_epoch:
            self._compute_target(outcome)
        self._reconcile(member, outcome, owned=owned, subscription_changed=False, now_ms=now_ms)
        self._extend_session(member, now_ms)
        return self._reply(member, with_assignment=member.current.assigned != assigned_before)

    def _heartbeat(self, command: ConsumerHeartbeat, outcome: Outcome, *, now_ms: int) -> Fields:
        member_id = command.member_id or self._new_member_id()
        existing, replaced = admit(self._state, command, member_id=member_id, limit=self.settings.consumer_max_group_size)
        base = existing or replaced
        metadata = updated(UNKNOWN_MEMBER if base is None else base.metadata, command)
        expression_changed = (base.metadata.subscribed_topic_regex if base else None) != metadata.subscribed_topic_regex
        if expression_changed and metadata.subscribed_topic_regex:
            topic_pattern(metadata.subscribed_topic_regex)
        # From here on nothing is refused.
        assigned_before = base.current.assigned if base is not None else ()
        names_changed = base is None or base.metadata.subscribed_topic_names != metadata.subscribed_topic_names
        dropped = base.metadata.subscribed_topic_regex if base is not None and expression_changed else None
        if replaced is not None:
            self._replace(replaced, member_id, outcome)
        if base is None or metadata != base.metadata:
            self._write(outcome, ConsumerRecordType.MEMBER_METADATA, metadata, name=member_id)
        member = self._state.members[member_id]
        needs_target = self._change_expression(dropped, metadata, outcome) if expression_changed else False
        needs_target = self._scan(outcome, now_ms) or names_changed or needs_target
        if needs_target or self._state.epoch == 0:
            self._bump(outcome)
        if self._state.epoch > self._state.target_epoch:
            self._compute_target(outcome)
        owned = command.topic_partitions
        self._reconcile(member, outcome, owned=owned, subscription_changed=names_changed or expression_changed, now_ms=now_ms)
        self._extend_session(member, now_ms)
        is_full = command.member_epoch == JOIN_EPOCH or (
            command.rebalance_timeout_ms >= 0
            and owned is not None
            and (command.subscribed_topic_names is not None or command.subscribed_topic_regex is not None)
        )
        return self._reply(member, with_assignment=is_full or member.current.assigned != assigned_before)

    def _reply(self, member: ConsumerMember, *, with_assignment: bool = False) -> Fields:
        interval_ms = self.settings.consumer_heartbeat_interval_ms
        reply = consumer_heartbeat_answer(member.member_id, member.current.member_epoch, heartbeat_interval_ms=interval_ms)
        if with_assignment:
            partitions = [{"topic_id": topic_id, "partitions": list(numbers)} for topic_id, numbers in member.current.assigned]
            reply["assignment"] = {"topic_partitions": partitions}
        return reply

    # --- who may be a member --------------------------------------------------------------------------------------------------------------

    def _replace(self, old: ConsumerMember, member_id: str, outcome: Outcome) -> None:
        """A static member is back with another member id: it takes over what the old one had."""
        target = self._state.target.get(old.member_id, ())
        current = old.current._replace(member_epoch=0, previous_member_epoch=0)
        metadata = old.metadata
        self._remove(old, outcome)
        self._write(outcome, ConsumerRecordType.MEMBER_METADATA, metadata, name=member_id)
        self._write(outcome, ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, TargetAssignment(target), name=member_id)
        self._write(outcome, ConsumerRecordType.CURRENT_ASSIGNMENT, current, name=member_id)

    def _leave(self, command: ConsumerHeartbeat, outcome: Outcome, *, now_ms: int) -> Fields:
        member = leaver(self._state, command.member_id, command.instance_id)
        if command.member_epoch == STATIC_LEAVE_EPOCH:
            away = member.current._replace(member_epoch=STATIC_LEAVE_EPOCH, pending_revocation=())
            self._write(outcome, ConsumerRecordType.CURRENT_ASSIGNMENT, away, name=member.member_id)
            member.rebalance_deadline_ms = None
        else:
            self._fence((member,), outcome)
        return consumer_heartbeat_answer(command.member_id, command.member_epoch)

    def leave(self, command: LeaveGroup, waiter: Waiter) -> Outcome:
        """Remove members as tools do, with the request of the classic protocol: by member id, or a static one by its instance id alone."""
        outcome = Outcome()
        answers: list[Fields] = []
        leaving: dict[str, ConsumerMember] = {}
        for one in command.members:
            error_code = 0
            try:
                member_id = one.member_id or self._state.static_members.get(one.instance_id or "", "")
                member = leaver(self._state, member_id, one.instance_id)
                leaving[member.member_id] = member
            except KafkaError as error:
                error_code = error.code
            answers.append({"member_id": one.member_id, "group_instance_id": one.instance_id, "error_code": error_code})
        if leaving:
            self._fence(leaving.values(), outcome)
        outcome.reply(waiter, {"error_code": 0, "members": answers})
        return outcome

    def _fence(self, members: Iterable[ConsumerMember], outcome: Outcome) -> None:
        """Members are out, by their own wish or not; the others get what they had."""
        expressions = set()
        for member in members:
            expressions.add(member.metadata.subscribed_topic_regex)
            self._remove(member, outcome)
        for expression in sorted(filter(None, expressions)):
            self._forget_expression(expression, outcome)
        self._bump(outcome)

    def _remove(self, member: ConsumerMember, outcome: Outcome) -> None:
        for record_type in (
            ConsumerRecordType.CURRENT_ASSIGNMENT,
            ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER,
            ConsumerRecordType.MEMBER_METADATA,
        ):
            self._write(outcome, record_type, None, name=member.member_id)

    # --- expressions ----------------------------------------------------------------------------------------------------------------------

    def _change_expression(self, dropped: str | None, metadata: MemberMetadata, outcome: Outcome) -> bool:
        """Whether that needs a new target by itself: what is still to be matched will ask for one when it is."""
        if dropped:
            self._forget_expression(dropped, outcome)
        expression = metadata.subscribed_topic_regex
        if not expression or expression in self._state.expressions:
            return True
        self._subscriptions.start_scan(expression)
        return False

    def _forget_expression(self, expression: str, outcome: Outcome) -> None:
        if self._state.subscribers_of(expression) == 0:
            self._subscriptions.stop_scan(expression)
            if expression in self._state.expressions:
                self._write(outcome, ConsumerRecordType.REGULAR_EXPRESSION, None, name=expression)

    def _scan(self, outcome: Outcome, now_ms: int) -> bool:
        """Match expressions as far as the budget goes; whether one of them now stands for other topics."""
        if not self._subscriptions.has_scans():
            return False
        changed = False
        for expression, topics in self._subscriptions.scanned(now_ms):
            before = self._state.expressions.get(expression)
            if before is None or before.topics != topics:
                resolved = RegularExpression(topics, 0 if before is None else before.version + 1, now_ms)
                self._write(outcome, ConsumerRecordType.REGULAR_EXPRESSION, resolved, name=expression)
                changed = changed or topics != (() if before is None else before.topics)
        self._scan_due_ms = now_ms + _SCAN_INTERVAL_MS if self._subscriptions.has_scans() else None
        return changed

    # --- target and reconciliation --------------------------------------------------------------------------------------------------------

    def _bump(self, outcome: Outcome) -> None:
        value = GroupEpoch(self._state.epoch + 1, self._subscriptions.metadata_hash())
        self._write(outcome, ConsumerRecordType.GROUP_METADATA, value)

    def _compute_target(self, outcome: Outcome) -> None:
        state = self._state
        assignment = compute_target(state, self._subscriptions, assignor=self.assignor_name)
        for member_id, partitions in assignment.items():
            if partitions != state.target.get(member_id):
                self._write(outcome, ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, TargetAssignment(partitions), name=member_id)
        self._write(outcome, ConsumerRecordType.TARGET_ASSIGNMENT, TargetAssignmentEpoch(state.epoch))

    @property
    def assignor_name(self) -> str:
        """The assignor that most members ask for, of those that there are."""
        return chosen_assignor(self._state, available_assignors(self.settings))

    def _reconcile(
        self,
        member: ConsumerMember,
        outcome: Outcome,
        *,
        owned: Assignment | None,
        subscription_changed: bool,
        now_ms: int,
    ) -> None:
        state = self._state
        if not subscription_changed and member.is_reconciled_to(state.target_epoch):
            return
        target = Target(
            state.target.get(member.member_id, ()),
            state.target_epoch,
            subscribed_ids=self._subscriptions.topic_ids(member.metadata),
            subscription_changed=subscription_changed,
            is_free=lambda topic_id, partition: state.owner(topic_id, partition) in (None, member.member_id),
        )
        current = reconcile(member.current, target, owned=owned)
        if current == member.current:
            return
        self._write(outcome, ConsumerRecordType.CURRENT_ASSIGNMENT, current, name=member.member_id)
        self._start_rebalance_timer(member, now_ms)

    # --- time -----------------------------------------------------------------------------------------------------------------------------

    def _start_rebalance_timer(self, member: ConsumerMember, now_ms: int) -> None:
        if member.current.state == MemberState.UNREVOKED_PARTITIONS:
            member.rebalance_deadline_ms = now_ms + max(member.metadata.rebalance_timeout_ms, 0)
            self._watch(member.rebalance_deadline_ms)
        else:
            member.rebalance_deadline_ms = None

    def _extend_session(self, member: ConsumerMember, now_ms: int) -> None:
        classic = member.metadata.classic
        timeout_ms = self.settings.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
        member.session_deadline_ms = deadline_ms = now_ms + timeout_ms
        if self._deadline_ms is None or deadline_ms < self._deadline_ms:
            self._deadline_ms = deadline_ms

    def _watch(self, deadline_ms: int) -> None:
        if self._deadline_ms is None or deadline_ms < self._deadline_ms:
            self._deadline_ms = deadline_ms

    def loaded(self, now_ms: int) -> Outcome:
        """Give every member its time again; a new session for all, since nobody could reach the coordinator."""
        for member in self._state.members.values():
            self._extend_session(member, now_ms)
            self._start_rebalance_timer(member, now_ms)
        return Outcome()

    def unloaded(self) -> Outcome:
        """Nobody waits here: heartbeats are answered at once."""
        return Outcome()

    def tick(self, now_ms: int) -> Outcome:
        """Fence whoever is overdue, and go on matching expressions."""
        outcome = Outcome()
        if self._scan_due_ms is not None and now_ms >= self._scan_due_ms and self._scan(outcome, now_ms):
            self._bump(outcome)
        if self._deadline_ms is not None and now_ms >= self._deadline_ms:
            deadlines = {member.member_id: member.deadline_ms() for member in self._state.members.values()}
            due = [
                self._state.members[member_id] for member_id, deadline in deadlines.items() if deadline is not None and deadline <= now_ms
            ]
            if due:
                self._fence(due, outcome)
            self._deadline_ms = min(
                (deadline for deadline in deadlines.values() if deadline is not None and deadline > now_ms), default=None
            )
        return outcome

    def next_deadline_ms(self) -> int | None:
        """When to tick next, or earlier."""
        if self._scan_due_ms is None or (self._deadline_ms is not None and self._deadline_ms < self._scan_due_ms):
            return self._deadline_ms
        return self._scan_due_ms

    def topics_changed(self, image: TopicImage, *, now_ms: int) -> Outcome:
        """If subscribed topics came, went or grew, a new target is needed; it is computed with the next heartbeat."""
        outcome = Outcome()
        is_affected = self._subscriptions.change_image(image)
        if self._state.members:
            has_matched = self._scan(outcome, now_ms)
            if has_matched or (is_affected and self._subscriptions.metadata_hash() != self._state.metadata_hash):
                self._bump(outcome)
        return outcome

    # --- what others ask ------------------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        state = self._state
        if not state.members:
            return "Empty"
        if state.epoch > state.target_epoch:
            return "Assigning"
        return "Stable" if all(member.is_reconciled_to(state.target_epoch) for member in state.members.values()) else "Reconciling"

    @property
    def is_empty(self) -> bool:
        """Whether there are no members."""
        return not self._state.members

    @property
    def is_gone(self) -> bool:
        """Whether its metadata record has been deleted."""
        return self._state.is_deleted

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return topic in self._subscriptions.names()

    def check_commit(self, command: CommitOffsets, *, now_ms: int) -> None:
        """Only members commit, with their epoch; anybody may while there are none. A commit is no sign of life in this protocol."""
        epoch = command.generation_or_member_epoch
        if epoch < 0 and not self._state.members:
            return
        member = known_member(self._state, command.member_id)
        if member.metadata.classic is None and not command.understands_stale_epoch:
            raise UnsupportedVersion("OffsetCommit version 9 or above must be used by members using the modern group protocol")
        check_current(member, epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """A member that says who it is has to have the epoch it is in."""
        if member_id is not None or member_epoch >= 0:
            check_current(known_member(self._state, member_id or ""), member_epoch)

    def check_offset_deletion(self) -> None:
        """Always allowed for topics that nobody reads."""

    def check_deletion(self) -> None:
        """A group with members cannot be deleted."""
        if self._state.members:
            raise NonEmptyGroup(f"Group {self.group_id} has members.")

    def expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """Offsets of topics that nobody reads count from their commit."""
        return commit_timestamp_ms

    def describe(self) -> Fields:
        """DescribeGroups knows classic groups only."""
        return {"group_state": "Dead", "protocol_type": "", "protocol_data": "", "members": []}

    def describe_consumer(self) -> Fields:
        """The group as ConsumerGroupDescribe shows it."""
        return describe(self._state, self._subscriptions.image, state_name=self.state, assignor=self.assignor_name)
