"""A group of the classic protocol (KIP-62, 345, 394, 814): what its members may ask, and which error they get in which state.

The group itself only brings members together: the member that leads computes the assignment, the bytes of subscriptions and assignments are
the members' own affair. What a generation is stands in `generation`, how one follows another in `rebalance`.

                      Empty                PreparingRebalance    CompletingRebalance              Stable
    JoinGroup, new    begins a rebalance   waits                 begins a rebalance               begins a rebalance
    JoinGroup, known  UNKNOWN_MEMBER_ID    waits                 same metadata: as before;        leader or new metadata: rebalance;
                                                                 else begins a rebalance          else the generation as it is
    SyncGroup         UNKNOWN_MEMBER_ID    REBALANCE_IN_PROGRESS waits; the leader's ends it      the assignment
    Heartbeat         UNKNOWN_MEMBER_ID    REBALANCE_IN_PROGRESS fine                             fine
    OffsetCommit      without generation   fine                  REBALANCE_IN_PROGRESS            fine
    TxnOffsetCommit   without generation   fine                  fine                             fine

An OffsetCommit also counts as a sign of life, except in CompletingRebalance; a TxnOffsetCommit is a producer's.
"""

from collections.abc import Sequence
from uuid import uuid4

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome, Waiter
from millstream.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    NonEmptyGroup,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from millstream.groups.classic.answers import join_error, sync_answer
from millstream.groups.classic.generation import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGeneration
from millstream.groups.classic.member import ClassicMember
from millstream.groups.classic.rebalance import ClassicRebalance
from millstream.groups.classic.records import NO_TIMESTAMP, group_metadata_record
from millstream.groups.classic.roster import ClassicRoster
from millstream.groups.commands import CommitOffsets, CommitPendingOffsets, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from millstream.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from millstream.groups.settings import GroupSettings

_MAX_NAME_IN_MEMBER_ID = 255


class ClassicGroup:
    """The requests of members, and what the coordinator asks of every group."""

    __slots__ = ("_rebalance", "_settings", "generation", "group_id")

    group_type = "classic"

    def __init__(self, group_id: str, settings: GroupSettings, *, now_ms: int = NO_TIMESTAMP) -> None:
        self.group_id = group_id
        self._settings = settings
        self.generation = ClassicGeneration(group_id, now_ms=now_ms)
        self._rebalance = ClassicRebalance(self.generation, settings)

    @property
    def roster(self) -> ClassicRoster:
        """The members."""
        return self.generation.roster

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        return self.generation.state

    @property
    def protocol_type(self) -> str:
        """What the members do; empty if there never were any."""
        return self.generation.protocol_type or ""

    # --- JoinGroup ----------------------------------------------------------------------------------------------------------------------

    def join(self, command: JoinGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Answer at once, or when the generation is complete."""
        outcome = Outcome()
        if not self._has_room_for(command.member_id):
            self.roster.remove(command.member_id)
            outcome.reply(waiter, join_error(GroupMaxSizeReached.code))
            self._rebalance.go_on(outcome, now_ms=now_ms)
        elif not self.generation.can_agree_with(command.protocol_type, command.protocols):
            outcome.reply(waiter, join_error(InconsistentGroupProtocol.code, member_id=command.member_id))
        elif not command.member_id:
            self._join_new(command, waiter, outcome, now_ms=now_ms)
        elif command.member_id in self.roster.pending:
            self._add(command.member_id, command, waiter, outcome, now_ms=now_ms)
        else:
            self._join_again(command, waiter, outcome, now_ms=now_ms)
        return outcome

    def _has_room_for(self, member_id: str) -> bool:
        """Those who wait count during a rebalance, so that the last to come are turned away when the limit was lowered."""
        limit = self._settings.max_group_size
        if len(self.roster) < limit:
            return True
        member = self.roster.get(member_id)
        if self.state == PREPARING_REBALANCE:
            return (member is not None and member.is_awaiting_join) or self.roster.awaiting_join_count < limit
        return self.state == EMPTY or member is not None

    def _join_new(self, command: JoinGroup, waiter: Waiter, outcome: Outcome, *, now_ms: int) -> None:
        member_id = f"{(command.instance_id or command.client_id)[:_MAX_NAME_IN_MEMBER_ID]}-{uuid4()}"
        existing = self.roster.member_of_instance(command.instance_id) if command.instance_id is not None else None
        if existing is not None:
            self._replace(existing, member_id, command=command, waiter=waiter, outcome=outcome, now_ms=now_ms)
        elif command.instance_id is not None or not command.requires_known_member_id:
            self._add(member_id, command, waiter, outcome, now_ms=now_ms)
        elif len(self.roster.pending) >= self._settings.max_pending_members:
            outcome.reply(waiter, join_error(GroupMaxSizeReached.code))
        else:
            self.roster.pending[member_id] = now_ms + command.session_timeout_ms
            self._rebalance.note_deadline(now_ms + command.session_timeout_ms)
            outcome.reply(waiter, join_error(MemberIdRequired.code, member_id=member_id))

    def _add(self, member_id: str, command: JoinGroup, waiter: Waiter, outcome: Outcome, *, now_ms: int) -> None:
        if command.instance_id is not None and self.roster.member_of_instance(command.instance_id) is not None:
            outcome.reply(waiter, join_error(FencedInstanceId.code, member_id=member_id))
            return
        member = ClassicMember.joining(member_id, command)
        member.is_new = True
        member.join_waiter = waiter
        if not len(self.roster):
            self.generation.protocol_type = command.protocol_type
        self.roster.add(member)
        self._rebalance.member_added(member, now_ms=now_ms)
        self._rebalance.members_changed(outcome, now_ms=now_ms)

    def _join_again(self, command: JoinGroup, waiter: Waiter, outcome: Outcome, *, now_ms: int) -> None:
        try:
            member = self.roster.check(command.member_id, command.instance_id)
        except KafkaError as error:
            outcome.reply(waiter, join_error(error.code, member_id=command.member_id))
            return
        is_same = member.protocols == command.protocols
        is_leader = member.member_id == self.roster.leader
        if self.state == EMPTY:
            outcome.reply(waiter, join_error(UnknownMemberId.code, member_id=command.member_id))
        elif is_same and (self.state == COMPLETING_REBALANCE or (self.state == STABLE and not is_leader)):
            # The client may have missed the answer. A leader that joins again wants a new assignment: topics may have changed.
            outcome.reply(waiter, self.generation.joined_answer(member))
        else:
            self._update(member, command, waiter, outcome)
            self._rebalance.members_changed(outcome, now_ms=now_ms)

    def _update(self, member: ClassicMember, command: JoinGroup, waiter: Waiter, outcome: Outcome) -> None:
        self.roster.offer(member, command.protocols)
        member.take_timeouts(command)
        member.await_join(waiter, outcome)

    def _replace(self, member: ClassicMember, member_id: str, *, command: JoinGroup, waiter: Waiter, outcome: Outcome, now_ms: int) -> None:
        """A static member was started again: its place and assignment are kept, its former self is fenced (KIP-345)."""
        former_leader, former_id = self.roster.leader, member.member_id
        member.answer_join(join_error(FencedInstanceId.code, member_id=former_id), outcome)
        member.answer_sync(sync_answer(FencedInstanceId.code), outcome)
        self._rebalance.synced(former_id)
        self.roster.rename(member, member_id=member_id)
        member.client_id, member.client_host = command.client_id, command.client_host
        self._update(member, command, waiter, outcome)
        self._rebalance.renew_session(member, now_ms)
        if self.state != STABLE or self.roster.choose_protocol() != self.generation.protocol_name:
            # In CompletingRebalance the leader knows the former id only and would assign nothing to the new one.
            self._rebalance.members_changed(outcome, now_ms=now_ms)
            return
        record = self.generation.record()
        if self._rebalance.is_too_large(record):
            self._rebalance.members_changed(outcome, now_ms=now_ms)
            return
        outcome.write(record)
        self.generation.look_up_subscribed_topics()
        if command.supports_skipping_assignment:
            answer = self.generation.joined_answer(member, is_assignment_skipped=member_id == self.roster.leader)
        else:
            # Given the former leader, a client that cannot skip the assignment takes itself for a follower and asks for what it had.
            answer = {**self.generation.joined_answer(member), "leader": former_leader or "", "members": []}
        member.answer_join(answer, outcome)

    # --- SyncGroup, Heartbeat, LeaveGroup -----------------------------------------------------------------------------------------------

    def sync(self, command: SyncGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Answer at once, or when the leader has brought the assignment."""
        outcome = Outcome()
        try:
            member = self._check_sync(command)
        except KafkaError as error:
            outcome.reply(waiter, sync_answer(error.code))
            return outcome
        self._rebalance.synced(member.member_id)
        if self.state == STABLE:
            outcome.reply(waiter, self.generation.assigned_answer(member))
            return outcome
        member.await_sync(waiter, outcome)
        if member.member_id == self.roster.leader:
            assignments = {assigned.member_id: assigned.assignment for assigned in command.assignments}
            self._rebalance.complete_sync(assignments, outcome, now_ms=now_ms)
        return outcome

    def _check_sync(self, command: SyncGroup) -> ClassicMember:
        member = self._check_member(command.member_id, command.instance_id, generation_id=command.generation_id)
        for asked, chosen in (
            (command.protocol_type, self.generation.protocol_type),
            (command.protocol_name, self.generation.protocol_name),
        ):
            if asked is not None and chosen is not None and asked != chosen:
                raise InconsistentGroupProtocol(f"the group agreed on {chosen}, not on {asked}")
        if self.state == PREPARING_REBALANCE:
            raise RebalanceInProgress("join again")
        return member

    def heartbeat(self, command: Heartbeat, *, now_ms: int) -> Fields:
        """Renew the session, and say whether there is a rebalance."""
        try:
            member = self._check_member(command.member_id, command.instance_id, generation_id=command.generation_id)
        except KafkaError as error:
            return {"error_code": error.code}
        self._rebalance.renew_session(member, now_ms)
        return {"error_code": RebalanceInProgress.code if self.state == PREPARING_REBALANCE else 0}

    def _check_member(self, member_id: str, instance_id: str | None, *, generation_id: int) -> ClassicMember:
        member = self.roster.check(member_id, instance_id)
        if generation_id != self.generation.generation_id:
            raise IllegalGeneration(f"generation {generation_id} is over, it is {self.generation.generation_id}")
        return member

    def leave(self, command: LeaveGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Remove members, and rebalance once for all of them."""
        outcome = Outcome()
        answers: list[Fields] = []
        has_left = False
        for leaving in command.members:
            error_code = self._leave_one(leaving, outcome)
            has_left = has_left or error_code == 0
            answers.append({"member_id": leaving.member_id, "group_instance_id": leaving.instance_id, "error_code": error_code})
        outcome.reply(waiter, {"error_code": 0, "members": answers})
        if has_left and self.state != EMPTY:
            self._rebalance.members_changed(outcome, now_ms=now_ms)
        return outcome

    def _leave_one(self, leaving: LeavingMember, outcome: Outcome) -> int:
        if leaving.member_id in self.roster.pending:
            self.roster.remove(leaving.member_id)
            return 0
        try:
            if not leaving.member_id and leaving.instance_id is not None:
                # An operator removes a static member by its instance id alone.
                member = self.roster.member_of_instance(leaving.instance_id)
                if member is None:
                    return UnknownMemberId.code
            else:
                member = self.roster.check(leaving.member_id, leaving.instance_id)
        except KafkaError as error:
            return error.code
        self._rebalance.drop(member, outcome)
        return 0

    # --- what every group offers --------------------------------------------------------------------------------------------------------

    @property
    def member_count(self) -> int:
        """How many members there are."""
        return len(self.roster)

    @property
    def is_empty(self) -> bool:
        """Whether there are no members."""
        return self.state == EMPTY

    @property
    def has_clients(self) -> bool:
        """Whether there are members, or clients that were given an id and are expected back with it."""
        return len(self.roster) > 0 or len(self.roster.pending) > 0

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a consumer of the group reads the topic; if that cannot be known, yes."""
        if self.generation.subscribed_topics is None:
            return self.generation.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.generation.subscribed_topics

    def check_commit(self, command: CommitOffsets, *, now_ms: int) -> None:
        """Members commit in their generation; whoever has none only while there are no members."""
        generation_id = command.generation_or_member_epoch
        if generation_id < 0 and self.state == EMPTY:
            return
        if generation_id < 0 and not command.member_id and command.instance_id is None:
            raise UnknownMemberId("the group has members: only they commit")
        member = self._check_member(command.member_id, command.instance_id, generation_id=generation_id)
        if self.state == COMPLETING_REBALANCE:
            raise RebalanceInProgress("the generation is not complete")
        self._rebalance.renew_session(member, now_ms)

    def check_pending_commit(self, command: CommitPendingOffsets) -> None:
        """Who says it is a member has to be one, of this generation (KIP-447); who does not say who it is may commit, as in Kafka."""
        generation_id = command.generation_or_member_epoch
        if generation_id >= 0 or (self.state != EMPTY and (command.member_id or command.instance_id is not None)):
            self._check_member(command.member_id, command.instance_id, generation_id=generation_id)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whoever reads the offsets of a classic group does not say who it is."""

    def check_offset_deletion(self) -> None:
        """Only of groups of consumers is known what they read."""
        if self.state == DEAD:
            raise GroupIdNotFound(f"the group {self.group_id} is gone")
        if self.state != EMPTY and self.generation.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise NonEmptyGroup(f"the group {self.group_id} has members")

    def check_deletion(self) -> None:
        """Only empty groups are deleted."""
        if self.state == DEAD:
            raise GroupIdNotFound(f"the group {self.group_id} is gone")
        if self.state != EMPTY:
            raise NonEmptyGroup(f"the group {self.group_id} has members")

    def expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """When the group became empty; the commit if there never were members, or if the group no longer reads the topic (KIP-211)."""
        generation = self.generation
        if generation.protocol_type is None:
            return commit_timestamp_ms
        if generation.state == EMPTY:
            return commit_timestamp_ms if generation.state_timestamp_ms == NO_TIMESTAMP else generation.state_timestamp_ms
        if generation.state == STABLE and generation.protocol_type == CONSUMER_PROTOCOL_TYPE and generation.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        """Forget the generation."""
        return [group_metadata_record(self.group_id, None)]

    def describe(self) -> Fields:
        """The group as DescribeGroups shows it."""
        return self.generation.describe()

    def next_deadline_ms(self) -> int | None:
        """Not later than anything that becomes due."""
        return self._rebalance.next_deadline_ms()

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due, in the order in which it became due."""
        return self._rebalance.tick(now_ms)

    def loaded(self, now_ms: int) -> Outcome:
        """Every restored member gets a whole session; a group that has become too big by a changed limit rebalances."""
        outcome = Outcome()
        for member in self.roster:
            self._rebalance.renew_session(member, now_ms)
        if len(self.roster) > self._settings.max_group_size:
            self._rebalance.prepare(outcome, now_ms=now_ms)
        return outcome

    def unloaded(self) -> Outcome:
        """Answer all who wait; the group is dead."""
        outcome = Outcome()
        self._refuse_waiters(NotCoordinator.code, outcome)
        self.generation.state = DEAD
        self._rebalance.stop()
        return outcome

    # --- to and from the other kind of group --------------------------------------------------------------------------------------------

    def adopt(self, members: Sequence[ClassicMember], *, generation_id: int, now_ms: int) -> None:
        """Become the group of these consumers, who were members of a KIP-848 group and have a protocol in common."""
        self.generation.adopt(members, generation_id=generation_id, now_ms=now_ms)
        for member in members:
            self._rebalance.renew_session(member, now_ms)

    def give_way(self) -> Outcome:
        """The group becomes one of the other kind: whoever waits has to join again."""
        outcome = Outcome()
        self._refuse_waiters(RebalanceInProgress.code, outcome)
        return outcome

    def rebalance(self, outcome: Outcome, *, now_ms: int) -> None:
        """Have the members join again."""
        self._rebalance.members_changed(outcome, now_ms=now_ms)

    def is_too_large(self) -> bool:
        """Whether the generation does not fit into a record."""
        return self._rebalance.is_too_large(self.generation.record())

    def _refuse_waiters(self, error_code: int, outcome: Outcome) -> None:
        for member in self.roster:
            member.answer_join(join_error(error_code, member_id=member.member_id), outcome)
            member.answer_sync(sync_answer(error_code), outcome)
