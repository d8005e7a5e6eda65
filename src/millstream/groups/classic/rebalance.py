"""How a classic group comes from one generation to the next: states, timers, and the two barriers (join, then sync).

            join (first member)                    all joined, or time is over            the leader brings the assignment
    Empty ───────────────────────► PreparingRebalance ─────────────────► CompletingRebalance ─────────────────► Stable
      ▲                                 │   ▲   ▲                               │                                 │
      └──────── nobody joined ──────────┘   │   └──── join, leave, expiry ──────┘                                 │
                                            └──────────── join, leave, expiry ────────────────────────────────────┘

    Dead: unloaded or deleted.

Timers. A member's session: without a sign of life it is removed, unless we owe it an answer. A pending id: forgotten after the session
timeout. The join barrier: the longest rebalance timeout of the members, after which who has not joined is removed (static members stay
until their session is over); for an empty group instead the initial delay, which new members extend up to the rebalance timeout. The sync
barrier: the rebalance timeout, after which who has not sent SyncGroup is removed.

Records. A generation is written when the leader has brought its assignment, and when a group became empty: a rebalance that is under way is
not remembered, its members join again after a restart.

Every waiter is answered exactly once: also that of a member that leaves, is replaced, or asks a second time.
"""

from collections.abc import Iterable

from millstream.errors import NotCoordinator, RebalanceInProgress, UnknownMemberId, UnknownServerError
from millstream.groups.classic.answers import join_error, sync_answer
from millstream.groups.classic.member import NO_ASSIGNMENT, ClassicMember
from millstream.groups.classic.records import NO_TIMESTAMP, GroupMetadata, group_metadata_record
from millstream.groups.classic.roster import ClassicRoster
from millstream.groups.commands import Protocol
from millstream.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from millstream.groups.outcome import Fields, GroupRecord, Outcome, Waiter
from millstream.groups.settings import GroupSettings

EMPTY = "Empty"
PREPARING_REBALANCE = "PreparingRebalance"
COMPLETING_REBALANCE = "CompletingRebalance"
STABLE = "Stable"
DEAD = "Dead"

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""A new member cannot send heartbeats before its first answer; it is given up after this time."""


class ClassicRebalance:
    """State, members and timers of a classic group."""

    __slots__ = (
        "_due_ms",
        "_initial_delay_ms",
        "_initial_remaining_ms",
        "_is_new_member_added",
        "_join_deadline_ms",
        "_pending_sync",
        "_protocol_type",
        "_settings",
        "_subscribed_topics",
        "_sync_deadline_ms",
        "_was_empty",
        "generation_id",
        "group_id",
        "protocol_name",
        "roster",
        "state",
        "state_timestamp_ms",
    )

    def __init__(self, group_id: str, settings: GroupSettings, *, now_ms: int = NO_TIMESTAMP) -> None:
        self.group_id = group_id
        self._settings = settings
        # durable
        self.state = EMPTY
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_name: str | None = None
        self._protocol_type: str | None = None
        self.roster = ClassicRoster()
        self._subscribed_topics: frozenset[str] | None = None
        # of the rebalance under way
        self._was_empty = False
        self._pending_sync: set[str] = set()
        self._join_deadline_ms: int | None = None
        self._initial_delay_ms = 0
        self._initial_remaining_ms = 0
        self._is_new_member_added = False
        self._sync_deadline_ms: int | None = None
        self._due_ms: int | None = None

    @property
    def protocol_type(self) -> str:
        """What the members do; empty if nobody ever joined."""
        return self._protocol_type or ""

    def metadata_record(self) -> GroupRecord:
        """The generation as it is now."""
        members = tuple(member.to_record(self.protocol_name) for member in self.roster) if self.protocol_name is not None else ()
        metadata = GroupMetadata(
            self.protocol_type, self.generation_id, self.protocol_name, self.roster.leader, self.state_timestamp_ms, members
        )
        return group_metadata_record(self.group_id, metadata)

    def restore(self, metadata: GroupMetadata) -> None:
        """Become the generation that a record remembers."""
        self._protocol_type = metadata.protocol_type or None
        self.generation_id = metadata.generation_id
        self.protocol_name = metadata.protocol_name
        self.state_timestamp_ms = metadata.state_timestamp_ms
        self.roster = ClassicRoster()
        by_id = {member.member_id: member for member in metadata.members}
        for record in {member.instance_id or member.member_id: member for member in by_id.values()}.values():
            self.roster.add(ClassicMember.restored(record, protocol_name=metadata.protocol_name or ""))
        if metadata.leader is not None and metadata.leader in self.roster:
            self.roster.leader = metadata.leader
        self.state = STABLE if metadata.members else EMPTY
        self._look_up_subscribed_topics()

    def adopt(self, members: Iterable[ClassicMember], *, generation_id: int, now_ms: int) -> None:
        """Become the generation of these consumers, who were members of a KIP-848 group and have a protocol in common."""
        self._protocol_type = CONSUMER_PROTOCOL_TYPE
        self.generation_id = generation_id
        self.state, self.state_timestamp_ms = STABLE, now_ms
        for member in members:
            self.roster.add(member)
            self._renew_session(member, now_ms)
        self.protocol_name = self.roster.choose_protocol()
        self._look_up_subscribed_topics()

    def give_way(self) -> Outcome:
        """The group becomes one of the other kind: whoever waits has to join again."""
        outcome = Outcome()
        self._refuse_waiters(RebalanceInProgress.code, outcome)
        return outcome

    # --- waiters ------------------------------------------------------------------------------------------------------------------------

    def _await_join(self, member: ClassicMember, waiter: Waiter, outcome: Outcome) -> None:
        if member.join_waiter is not None:
            self._answer_join(member, join_error(RebalanceInProgress.code, member_id=member.member_id), outcome)
        member.join_waiter = waiter

    def _await_sync(self, member: ClassicMember, waiter: Waiter, outcome: Outcome) -> None:
        if member.sync_waiter is not None:
            self._answer_sync(member, sync_answer(RebalanceInProgress.code), outcome)
        member.sync_waiter = waiter

    def _answer_join(self, member: ClassicMember, fields: Fields, outcome: Outcome) -> None:
        if member.join_waiter is not None:
            outcome.reply(member.join_waiter, fields)
            member.join_waiter = None

    def _answer_sync(self, member: ClassicMember, fields: Fields, outcome: Outcome) -> None:
        if member.sync_waiter is not None:
            outcome.reply(member.sync_waiter, fields)
            member.sync_waiter = None

    def _joined_answer(self, member: ClassicMember, *, is_assignment_skipped: bool = False) -> Fields:
        """The current generation; its leader is also shown the members."""
        assert self.protocol_name is not None
        members: list[Fields] = []
        if member.member_id == self.roster.leader:
            members = [
                {"member_id": other.member_id, "group_instance_id": other.instance_id, "metadata": other.metadata(self.protocol_name)}
                for other in self.roster
            ]
        return {
            "error_code": 0,
            "generation_id": self.generation_id,
            "protocol_type": self._protocol_type,
            "protocol_name": self.protocol_name,
            "leader": self.roster.leader or "",
            "skip_assignment": is_assignment_skipped,
            "member_id": member.member_id,
            "members": members,
        }

    def _assigned_answer(self, member: ClassicMember) -> Fields:
        return sync_answer(0, protocol_type=self._protocol_type, protocol_name=self.protocol_name, assignment=member.assignment)

    # --- members ------------------------------------------------------------------------------------------------------------------------

    def _renew_session(self, member: ClassicMember, now_ms: int, *, timeout_ms: int | None = None) -> None:
        member.deadline_ms = now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        self._note_deadline(member.deadline_ms)

    def _drop(self, member: ClassicMember, outcome: Outcome) -> None:
        """Remove a member; if a request of its waits, the client is to join anew."""
        self._answer_join(member, join_error(UnknownMemberId.code), outcome)
        self._answer_sync(member, sync_answer(UnknownMemberId.code), outcome)
        self._pending_sync.discard(member.member_id)
        self.roster.remove(member.member_id)

    def _offers_agree(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        if self.state == EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self._protocol_type and self.roster.can_agree_with(protocols)

    # --- transitions --------------------------------------------------------------------------------------------------------------------

    def _enter(self, state: str, now_ms: int) -> None:
        self._was_empty = self.state == EMPTY
        self.state = state
        self.state_timestamp_ms = now_ms

    def rebalance(self, outcome: Outcome, *, now_ms: int) -> None:
        """Something changed: begin a rebalance, or, if one is under way, see whether it can go on."""
        if self.state in (EMPTY, COMPLETING_REBALANCE, STABLE):
            self._prepare_rebalance(outcome, now_ms=now_ms)
        else:
            self._go_on(outcome, now_ms=now_ms)

    def _go_on(self, outcome: Outcome, *, now_ms: int) -> None:
        """Pass the join barrier if everybody is there; the first rebalance of a group waits for its delay instead."""
        if self.state == PREPARING_REBALANCE and not self._was_empty and self.roster.has_everybody_joined:
            self._complete_join(outcome, now_ms=now_ms)

    def _prepare_rebalance(self, outcome: Outcome, *, now_ms: int) -> None:
        if self.state == COMPLETING_REBALANCE:
            self._reset_assignments(RebalanceInProgress.code, outcome, now_ms=now_ms)
        self._pending_sync.clear()
        self._sync_deadline_ms = None
        is_initial = self.state == EMPTY
        self._enter(PREPARING_REBALANCE, now_ms)
        if is_initial:
            self._initial_delay_ms = self._settings.initial_rebalance_delay_ms
            self._initial_remaining_ms = max(self.roster.rebalance_timeout_ms - self._initial_delay_ms, 0)
            self._is_new_member_added = False
            self._set_join_deadline(now_ms + self._initial_delay_ms)
        elif self.roster.has_everybody_joined:
            self._complete_join(outcome, now_ms=now_ms)
        else:
            self._set_join_deadline(now_ms + self.roster.rebalance_timeout_ms)

    def _complete_join(self, outcome: Outcome, *, now_ms: int) -> None:
        """Pass the join barrier without those who have not come."""
        self._join_deadline_ms = None
        for member in [member for member in self.roster if not member.is_awaiting_join and member.instance_id is None]:
            self._drop(member, outcome)
        if not self.roster.elect_joined_leader() and len(self.roster):
            # Only static members, none of which came: wait until they do or their sessions are over.
            self._set_join_deadline(now_ms + max(self.roster.rebalance_timeout_ms, 1))
            return
        self.generation_id += 1
        self.protocol_name = self.roster.choose_protocol() if len(self.roster) else None
        self._look_up_subscribed_topics()
        self._pending_sync.clear()
        if not len(self.roster):
            self._enter(EMPTY, now_ms)
            outcome.write(self.metadata_record())
            return
        self._enter(COMPLETING_REBALANCE, now_ms)
        for member in self.roster:
            self._answer_join(member, self._joined_answer(member), outcome)
            self._renew_session(member, now_ms)
            member.is_new = False
            self._pending_sync.add(member.member_id)
        self._sync_deadline_ms = now_ms + self.roster.rebalance_timeout_ms
        self._note_deadline(self._sync_deadline_ms)

    def _complete_sync(self, assignments: dict[str, bytes], outcome: Outcome, *, now_ms: int) -> None:
        """The leader has brought the assignment: remember it, then tell everybody."""
        for member in self.roster:
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        previous_timestamp_ms, self.state_timestamp_ms = self.state_timestamp_ms, now_ms
        record = self.metadata_record()
        if self._is_too_large(record):
            self.state_timestamp_ms = previous_timestamp_ms
            self._reset_assignments(UnknownServerError.code, outcome, now_ms=now_ms)
            self._prepare_rebalance(outcome, now_ms=now_ms)
            return
        outcome.write(record)
        self._enter(STABLE, now_ms)
        for member in self.roster:
            if member.sync_waiter is not None:
                self._answer_sync(member, self._assigned_answer(member), outcome)
                self._renew_session(member, now_ms)

    def is_too_large(self) -> bool:
        """Whether the generation does not fit into a record."""
        return self._is_too_large(self.metadata_record())

    def _is_too_large(self, record: GroupRecord) -> bool:
        return len(record.key) + len(record.value or b"") > self._settings.max_batch_bytes

    def _reset_assignments(self, error_code: int, outcome: Outcome, *, now_ms: int) -> None:
        for member in self.roster:
            member.assignment = NO_ASSIGNMENT
            if member.sync_waiter is not None:
                self._answer_sync(member, sync_answer(error_code), outcome)
                self._renew_session(member, now_ms)

    def _look_up_subscribed_topics(self) -> None:
        if self._protocol_type != CONSUMER_PROTOCOL_TYPE:
            self._subscribed_topics = None
        elif self.protocol_name is None or not len(self.roster):
            self._subscribed_topics = None if len(self.roster) else frozenset()
        else:
            found = [subscribed_topics(metadata) for metadata in {member.metadata(self.protocol_name) for member in self.roster}]
            known = [topics for topics in found if topics is not None]
            self._subscribed_topics = frozenset().union(*known) if len(known) == len(found) else None

    # --- timers -------------------------------------------------------------------------------------------------------------------------

    def _note_deadline(self, deadline_ms: int) -> None:
        if self._due_ms is None or deadline_ms < self._due_ms:
            self._due_ms = deadline_ms

    def _set_join_deadline(self, deadline_ms: int) -> None:
        self._join_deadline_ms = deadline_ms
        self._note_deadline(deadline_ms)

    def next_deadline_ms(self) -> int | None:
        """Not later than anything that becomes due."""
        return self._due_ms

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due, in the order in which it became due."""
        outcome = Outcome()
        while self._due_ms is not None and self._due_ms <= now_ms:
            for _, kind, member_id in sorted(timer for timer in self._timers() if timer[0] <= now_ms):
                if kind == "join":
                    self._expire_join(outcome, now_ms=now_ms)
                elif kind == "sync":
                    self._expire_sync(outcome, now_ms=now_ms)
                else:
                    self._expire_session(member_id, outcome, now_ms=now_ms)
            self._due_ms = min((timer[0] for timer in self._timers()), default=None)
        return outcome

    def _timers(self) -> list[tuple[int, str, str]]:
        timers = [(member.deadline_ms, "session", member.member_id) for member in self.roster if member.deadline_ms is not None]
        timers += [(deadline_ms, "session", member_id) for member_id, deadline_ms in self.roster.pending.items()]
        if self._join_deadline_ms is not None:
            timers.append((self._join_deadline_ms, "join", ""))
        if self._sync_deadline_ms is not None:
            timers.append((self._sync_deadline_ms, "sync", ""))
        return timers

    def _expire_join(self, outcome: Outcome, *, now_ms: int) -> None:
        if self._join_deadline_ms is None or self._join_deadline_ms > now_ms:
            return
        if self._was_empty and self._is_new_member_added and self._initial_remaining_ms > 0:
            self._is_new_member_added = False
            delay_ms = min(self._settings.initial_rebalance_delay_ms, self._initial_remaining_ms)
            self._initial_remaining_ms = max(self._initial_remaining_ms - self._initial_delay_ms, 0)
            self._initial_delay_ms = delay_ms
            self._set_join_deadline(now_ms + delay_ms)
        else:
            self._complete_join(outcome, now_ms=now_ms)

    def _expire_sync(self, outcome: Outcome, *, now_ms: int) -> None:
        if self._sync_deadline_ms is None or self._sync_deadline_ms > now_ms:
            return
        self._sync_deadline_ms = None
        missing = [member for member in self.roster if member.member_id in self._pending_sync]
        if missing:
            for member in missing:
                self._drop(member, outcome)
            self._prepare_rebalance(outcome, now_ms=now_ms)

    def _expire_session(self, member_id: str, outcome: Outcome, *, now_ms: int) -> None:
        member = self.roster.get(member_id)
        if member is None:
            if self.roster.pending.get(member_id, now_ms + 1) <= now_ms:
                self.roster.remove(member_id)
                self._complete_if_everybody_joined(outcome, now_ms=now_ms)
        elif member.deadline_ms is not None and member.deadline_ms <= now_ms:
            if member.is_excused:
                member.deadline_ms = None
                return
            self._drop(member, outcome)
            if self.state in (STABLE, COMPLETING_REBALANCE):
                self._prepare_rebalance(outcome, now_ms=now_ms)
            else:
                self._complete_if_everybody_joined(outcome, now_ms=now_ms)

    def _complete_if_everybody_joined(self, outcome: Outcome, *, now_ms: int) -> None:
        if self.state == PREPARING_REBALANCE and self.roster.has_everybody_joined:
            self._complete_join(outcome, now_ms=now_ms)

    # --- loading ------------------------------------------------------------------------------------------------------------------------

    def loaded(self, now_ms: int) -> Outcome:
        """Every restored member gets a whole session; a group that has become too big by a changed limit rebalances."""
        outcome = Outcome()
        for member in self.roster:
            self._renew_session(member, now_ms)
        if len(self.roster) > self._settings.max_group_size:
            self._prepare_rebalance(outcome, now_ms=now_ms)
        return outcome

    def unloaded(self) -> Outcome:
        """Answer everybody who waits; the group is dead."""
        outcome = Outcome()
        self._refuse_waiters(NotCoordinator.code, outcome)
        self.state = DEAD
        self._due_ms = None
        return outcome

    def _refuse_waiters(self, error_code: int, outcome: Outcome) -> None:
        for member in self.roster:
            self._answer_join(member, join_error(error_code, member_id=member.member_id), outcome)
            self._answer_sync(member, sync_answer(error_code), outcome)
