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

Members that speak the classic protocol are in `classic_members`, what both have in common in `rebalance`. What it does not do: it does
not ask whether a member may see a topic.
"""

from collections.abc import Callable, Collection, Sequence

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome, Waiter
from millstream.errors import KafkaError, NonEmptyGroup, UnsupportedVersion
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.commands import (
    NO_GENERATION,
    CommitOffsets,
    CommitPendingOffsets,
    ConsumerHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from millstream.groups.consumer.admission import admit, check_current, known_member, leaver
from millstream.groups.consumer.answers import consumer_heartbeat_answer, consumer_heartbeat_error, described
from millstream.groups.consumer.classic_members import ClassicMembers
from millstream.groups.consumer.heartbeat_check import check_consumer_heartbeat
from millstream.groups.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, UNKNOWN_MEMBER, ConsumerMember, MigratedMember, updated
from millstream.groups.consumer.rebalance import ConsumerRebalance, random_member_id
from millstream.groups.consumer.reconciliation import KNOWN_STATES
from millstream.groups.consumer.records import Assignment, ConsumerKey, ConsumerRecordType, ConsumerValue
from millstream.groups.consumer.subscriptions import NO_HASH
from millstream.groups.consumer.topic_patterns import MatchingBudget, topic_pattern
from millstream.groups.settings import GroupSettings
from millstream.groups.topic_image import TopicImage


class ConsumerGroup:
    """The machine of one group."""

    __slots__ = ("_classic_members", "_rebalance", "_settings", "_state", "group_id")

    group_type = "consumer"
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
        self._settings = settings
        self._rebalance = ConsumerRebalance(group_id, settings, budget=budget or MatchingBudget(), new_member_id=new_member_id)
        self._state = self._rebalance.state
        self._classic_members = ClassicMembers(self._rebalance)

    # --- the heartbeat --------------------------------------------------------------------------------------------------------------------

    def handle(self, command: ConsumerHeartbeat, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Decide a heartbeat; errors are answers."""
        outcome = Outcome()
        try:
            member = self._state.members.get(command.member_id)
            if member is not None and self._says_nothing_new(member, command):
                reply = self._carry_on(member, outcome, owned=command.topic_partitions, now_ms=now_ms)
            else:
                check_consumer_heartbeat(command, self._settings)
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
            and not self._rebalance.subscriptions.has_scans()
        )

    def _carry_on(self, member: ConsumerMember, outcome: Outcome, *, owned: Assignment | None, now_ms: int) -> Fields:
        """The second and third step of a heartbeat, whose first has nothing to do."""
        assigned_before = member.current.assigned
        if self._state.epoch > self._state.target_epoch:
            self._rebalance.compute_target(outcome)
        self._rebalance.reconcile(member, outcome, owned=owned, subscription_changed=False, now_ms=now_ms)
        self._rebalance.extend_session(member, now_ms)
        return self._reply(member, with_assignment=member.current.assigned != assigned_before)

    def _heartbeat(self, command: ConsumerHeartbeat, outcome: Outcome, *, now_ms: int) -> Fields:
        member_id = command.member_id or self._rebalance.new_member_id()
        existing, replaced = admit(self._state, command, member_id=member_id, limit=self._settings.consumer_max_group_size)
        base = existing or replaced
        metadata = updated(UNKNOWN_MEMBER if base is None else base.metadata, command)
        expression_changed = (base.metadata.subscribed_topic_regex if base else "") != metadata.subscribed_topic_regex
        if expression_changed and metadata.subscribed_topic_regex:
            topic_pattern(metadata.subscribed_topic_regex)
        # From here on nothing is refused.
        assigned_before = base.current.assigned if base is not None else ()
        names_changed = base is None or base.metadata.subscribed_topic_names != metadata.subscribed_topic_names
        dropped = base.metadata.subscribed_topic_regex if base is not None and expression_changed else None
        if replaced is not None:
            self._rebalance.replace(replaced, member_id, outcome)
        if base is None or metadata != base.metadata:
            self._rebalance.write(outcome, ConsumerRecordType.MEMBER_METADATA, metadata, name=member_id)
        member = self._state.members[member_id]
        member.forget_classic_deadlines()
        needs_target = self._rebalance.change_expression(dropped, metadata, outcome) if expression_changed else False
        needs_target = self._rebalance.scan(outcome, now_ms) or names_changed or needs_target
        if needs_target or self._state.metadata_hash == NO_HASH:
            self._rebalance.bump(outcome)
        if self._state.epoch > self._state.target_epoch:
            self._rebalance.compute_target(outcome)
        owned = command.topic_partitions
        self._rebalance.reconcile(member, outcome, owned=owned, subscription_changed=names_changed or expression_changed, now_ms=now_ms)
        self._rebalance.extend_session(member, now_ms)
        is_full = command.member_epoch == JOIN_EPOCH or (
            command.rebalance_timeout_ms >= 0
            and owned is not None
            and (command.subscribed_topic_names is not None or command.subscribed_topic_regex is not None)
        )
        return self._reply(member, with_assignment=is_full or member.current.assigned != assigned_before)

    def _reply(self, member: ConsumerMember, *, with_assignment: bool = False) -> Fields:
        interval_ms = self._settings.consumer_heartbeat_interval_ms
        reply = consumer_heartbeat_answer(member.member_id, member.current.member_epoch, heartbeat_interval_ms=interval_ms)
        if with_assignment:
            partitions = [{"topic_id": topic_id, "partitions": list(numbers)} for topic_id, numbers in member.current.assigned]
            reply["assignment"] = {"topic_partitions": partitions}
        return reply

    # --- who leaves -----------------------------------------------------------------------------------------------------------------------

    def _leave(self, command: ConsumerHeartbeat, outcome: Outcome, *, now_ms: int) -> Fields:
        member = leaver(self._state, command.member_id, command.instance_id)
        if command.member_epoch == STATIC_LEAVE_EPOCH:
            away = member.current._replace(member_epoch=STATIC_LEAVE_EPOCH, pending_revocation=())
            self._rebalance.write(outcome, ConsumerRecordType.CURRENT_ASSIGNMENT, away, name=member.member_id)
            member.rebalance_deadline_ms = None
        else:
            self._rebalance.fence((member,), outcome, now_ms=now_ms)
        return consumer_heartbeat_answer(command.member_id, command.member_epoch)

    def leave(self, command: LeaveGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Remove members, as classic ones and tools do: by member id, or a static one by its instance id alone."""
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
            self._rebalance.fence(leaving.values(), outcome, now_ms=now_ms)
        outcome.reply(waiter, {"error_code": 0, "members": answers})
        return outcome

    # --- members of the classic protocol --------------------------------------------------------------------------------------------------

    def join(self, command: JoinGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Let a member of the classic protocol join."""
        return self._classic_members.join(command, waiter, now_ms=now_ms)

    def sync(self, command: SyncGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Give a member of the classic protocol its assignment."""
        return self._classic_members.sync(command, waiter, now_ms=now_ms)

    def heartbeat(self, command: Heartbeat, *, now_ms: int) -> Fields:
        """A member of the classic protocol lives."""
        return self._classic_members.heartbeat(command, now_ms=now_ms)

    def take_over(self, members: Sequence[MigratedMember], *, epoch: int, is_rebalancing: bool, now_ms: int) -> Outcome:
        """Become what a classic group was in its generation `epoch`."""
        return self._rebalance.take_over(members, epoch=epoch, is_rebalancing=is_rebalancing, now_ms=now_ms)

    @property
    def successor(self) -> ClassicGroup | None:
        """The classic group that this one has become; it is not used any more then."""
        return self._rebalance.successor

    # --- records, topics and time ---------------------------------------------------------------------------------------------------------

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Replay a record."""
        self._rebalance.apply(key, value)

    def tombstones(self) -> list[CoordinatorRecord]:
        """Delete everything durable of the group."""
        return self._rebalance.tombstones()

    def topics_changed(self, image: TopicImage, *, now_ms: int, changed: Collection[str] | None = None) -> Outcome:
        """If subscribed topics came, went or grew, a new target is needed; it is computed with the next heartbeat."""
        return self._rebalance.topics_changed(image, now_ms=now_ms, changed=changed)

    def loaded(self, now_ms: int) -> Outcome:
        """Give every member its time again."""
        return self._rebalance.loaded(now_ms)

    def unloaded(self) -> Outcome:
        """No request waits here: heartbeats are answered at once."""
        return Outcome()

    def tick(self, now_ms: int) -> Outcome:
        """Fence whoever is overdue, and go on matching expressions."""
        return self._rebalance.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When to tick next, or earlier."""
        return self._rebalance.next_deadline_ms()

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
    def member_count(self) -> int:
        """How many members there are."""
        return len(self._state.members)

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
        return topic in self._rebalance.subscriptions.names()

    def check_commit(self, command: CommitOffsets, *, now_ms: int) -> None:
        """Only members commit, with their epoch; any client may while there are none. A commit is no sign of life in this protocol."""
        epoch = command.generation_or_member_epoch
        if epoch < 0 and not self._state.members:
            return
        member = known_member(self._state, command.member_id)
        if member.metadata.classic is None and not command.understands_stale_epoch:
            raise UnsupportedVersion("OffsetCommit version 9 or above must be used by members using the modern group protocol")
        check_current(member, epoch)

    def check_pending_commit(self, command: CommitPendingOffsets) -> None:
        """As a commit, in all versions; and a producer that does not say which member it is may commit in any group."""
        epoch = command.generation_or_member_epoch
        is_anonymous = epoch == NO_GENERATION and not command.member_id and command.instance_id is None
        if not is_anonymous and (epoch >= 0 or self._state.members):
            check_current(known_member(self._state, command.member_id), epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """A member that says who it is has to have the epoch it is in."""
        if member_id is not None or member_epoch >= 0:
            check_current(known_member(self._state, member_id or ""), member_epoch)

    def check_offset_deletion(self) -> None:
        """Always allowed for topics that no member reads."""

    def check_deletion(self) -> None:
        """A group with members cannot be deleted."""
        if self._state.members:
            raise NonEmptyGroup(f"Group {self.group_id} has members.")

    def expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """Offsets of topics that no member reads count from their commit."""
        return commit_timestamp_ms

    def describe(self) -> Fields:
        """DescribeGroups knows classic groups only."""
        return {"group_state": "Dead", "protocol_type": "", "protocol_data": "", "members": []}

    def describe_consumer(self) -> Fields:
        """The group as ConsumerGroupDescribe shows it."""
        return described(self._state, self._rebalance.subscriptions.image, state_name=self.state, assignor=self._rebalance.assignor_name)
