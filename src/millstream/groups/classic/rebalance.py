"""How a classic group comes from one generation to the next: timers, and the two barriers (join, then sync).

            join (first member)                    all joined, or time is over            the leader brings the assignment
    Empty ───────────────────────► PreparingRebalance ─────────────────► CompletingRebalance ─────────────────► Stable
      ▲                                 │   ▲   ▲                               │                                 │
      └──────── no member joined ───────┘   │   └──── join, leave, expiry ──────┘                                 │
                                            └──────────── join, leave, expiry ────────────────────────────────────┘

    Dead: unloaded or deleted.

Timers. A member's session: without a sign of life it is removed, unless we owe it an answer. A pending id: forgotten after the session
timeout. The join barrier: the longest rebalance timeout of the members, after which who has not joined is removed (static members stay
until their session is over); for an empty group instead the initial delay, which new members extend up to the rebalance timeout. The sync
barrier: the rebalance timeout, after which who has not sent SyncGroup is removed.

Every waiter is answered exactly once: also that of a member that leaves, is replaced, or asks a second time.
"""

import logging

from millstream.coordinator_shard import CoordinatorRecord, Outcome
from millstream.errors import RebalanceInProgress, UnknownMemberId, UnknownServerError
from millstream.groups import silence
from millstream.groups.classic.answers import join_error, sync_answer
from millstream.groups.classic.generation import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGeneration
from millstream.groups.classic.member import NO_ASSIGNMENT, ClassicMember
from millstream.groups.settings import GroupSettings

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""A new member cannot send heartbeats before its first answer; it is given up after this time."""


class ClassicRebalance:
    """The barriers and the timers of a classic group."""

    __slots__ = (
        "_due_ms",
        "_generation",
        "_has_new_member",
        "_initial_delay_ms",
        "_initial_remaining_ms",
        "_join_deadline_ms",
        "_pending_sync",
        "_settings",
        "_sync_deadline_ms",
    )

    def __init__(self, generation: ClassicGeneration, settings: GroupSettings) -> None:
        self._generation = generation
        self._settings = settings
        self._pending_sync: set[str] = set()
        self._join_deadline_ms: int | None = None
        self._initial_delay_ms = 0
        self._initial_remaining_ms = 0
        self._has_new_member = False
        """Whether another member came during the initial delay."""
        self._sync_deadline_ms: int | None = None
        self._due_ms: int | None = None

    # --- members ------------------------------------------------------------------------------------------------------------------------

    def member_added(self, member: ClassicMember, *, now_ms: int) -> None:
        """A new member waits for its first answer."""
        if self._generation.state == PREPARING_REBALANCE and self._generation.was_empty:
            self._has_new_member = True
        self.renew_session(member, now_ms, timeout_ms=NEW_MEMBER_JOIN_TIMEOUT_MS)

    def renew_session(self, member: ClassicMember, now_ms: int, *, timeout_ms: int | None = None) -> None:
        """The member has given a sign of life."""
        member.deadline_ms = now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        self.note_deadline(silence.due_ms(member.deadline_ms, member.session_timeout_ms))

    def drop(self, member: ClassicMember, outcome: Outcome) -> None:
        """Remove a member; if a request of its waits, the client is to join anew."""
        member.answer_join(join_error(UnknownMemberId.code), outcome)
        member.answer_sync(sync_answer(UnknownMemberId.code), outcome)
        self._pending_sync.discard(member.member_id)
        self._generation.roster.remove(member.member_id)

    def synced(self, member_id: str) -> None:
        """No SyncGroup is expected from that member any more."""
        self._pending_sync.discard(member_id)
        if not self._pending_sync:
            self._sync_deadline_ms = None

    # --- transitions --------------------------------------------------------------------------------------------------------------------

    def members_changed(self, outcome: Outcome, *, now_ms: int) -> None:
        """Begin a rebalance, or, if one is under way, see whether it can go on."""
        if self._generation.state in (EMPTY, COMPLETING_REBALANCE, STABLE):
            self.prepare(outcome, now_ms=now_ms)
        else:
            self.go_on(outcome, now_ms=now_ms)

    def go_on(self, outcome: Outcome, *, now_ms: int) -> None:
        """Pass the join barrier if all have joined; the first rebalance of a group waits for its delay instead."""
        if not self._generation.was_empty:
            self._complete_if_all_joined(outcome, now_ms=now_ms)

    def _complete_if_all_joined(self, outcome: Outcome, *, now_ms: int) -> None:
        if self._generation.state == PREPARING_REBALANCE and self._generation.roster.have_all_joined:
            self._complete_join(outcome, now_ms=now_ms)

    def prepare(self, outcome: Outcome, *, now_ms: int) -> None:
        """Begin a rebalance: the members are to join."""
        generation = self._generation
        if generation.state == COMPLETING_REBALANCE:
            self._reset_assignments(RebalanceInProgress.code, outcome, now_ms=now_ms)
        self._pending_sync.clear()
        self._sync_deadline_ms = None
        is_initial = generation.state == EMPTY
        generation.enter(PREPARING_REBALANCE, now_ms)
        if is_initial:
            self._initial_delay_ms = self._settings.initial_rebalance_delay_ms
            self._initial_remaining_ms = max(generation.roster.rebalance_timeout_ms - self._initial_delay_ms, 0)
            self._has_new_member = False
            self._set_join_deadline(now_ms + self._initial_delay_ms)
        elif generation.roster.have_all_joined:
            self._complete_join(outcome, now_ms=now_ms)
        else:
            self._set_join_deadline(now_ms + generation.roster.rebalance_timeout_ms)

    def _complete_join(self, outcome: Outcome, *, now_ms: int) -> None:
        """Pass the join barrier without those who have not come."""
        generation, roster = self._generation, self._generation.roster
        self._join_deadline_ms = None
        for member in [member for member in roster if not member.is_awaiting_join and member.instance_id is None]:
            logger.info("group %s: %s did not join again in time, and is removed", generation.group_id, member.member_id)
            self.drop(member, outcome)
        if not roster.elect_joined_leader() and len(roster):
            # Only static members, none of which came: wait until they do or their sessions are over.
            self._set_join_deadline(now_ms + max(roster.rebalance_timeout_ms, 1))
            return
        generation.begin_next()
        self._pending_sync.clear()
        if not len(roster):
            generation.enter(EMPTY, now_ms)
            logger.info("group %s has no members any more", generation.group_id)
            outcome.write(generation.record())
            return
        generation.enter(COMPLETING_REBALANCE, now_ms)
        for member in roster:
            member.answer_join(generation.joined_answer(member), outcome)
            self.renew_session(member, now_ms)
            member.is_new = False
            self._pending_sync.add(member.member_id)
        self._sync_deadline_ms = now_ms + roster.rebalance_timeout_ms
        self.note_deadline(self._sync_deadline_ms)

    def complete_sync(self, assignments: dict[str, bytes], outcome: Outcome, *, now_ms: int) -> None:
        """The leader has brought the assignment: remember it, then answer all who wait for it."""
        generation = self._generation
        for member in generation.roster:
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        previous_timestamp_ms, generation.state_timestamp_ms = generation.state_timestamp_ms, now_ms
        record = generation.record()
        if self.is_too_large(record):
            generation.state_timestamp_ms = previous_timestamp_ms
            self._reset_assignments(UnknownServerError.code, outcome, now_ms=now_ms)
            self.prepare(outcome, now_ms=now_ms)
            return
        outcome.write(record)
        generation.enter(STABLE, now_ms)
        members = len(generation.roster)
        logger.info("group %s rebalanced: generation %d, %d member(s)", generation.group_id, generation.generation_id, members)
        for member in generation.roster:
            if member.sync_waiter is not None:
                member.answer_sync(generation.assigned_answer(member), outcome)
                self.renew_session(member, now_ms)

    def is_too_large(self, record: CoordinatorRecord) -> bool:
        """Whether that does not fit into a batch."""
        return len(record.key) + len(record.value or b"") > self._settings.max_batch_bytes

    def _reset_assignments(self, error_code: int, outcome: Outcome, *, now_ms: int) -> None:
        for member in self._generation.roster:
            member.assignment = NO_ASSIGNMENT
            if member.sync_waiter is not None:
                member.answer_sync(sync_answer(error_code), outcome)
                self.renew_session(member, now_ms)

    # --- timers -------------------------------------------------------------------------------------------------------------------------

    def note_deadline(self, deadline_ms: int) -> None:
        """Something becomes due then."""
        if self._due_ms is None or deadline_ms < self._due_ms:
            self._due_ms = deadline_ms

    def _set_join_deadline(self, deadline_ms: int) -> None:
        self._join_deadline_ms = deadline_ms
        self.note_deadline(deadline_ms)

    def next_deadline_ms(self) -> int | None:
        """Not later than anything that becomes due."""
        return self._due_ms

    def stop(self) -> None:
        """Nothing becomes due any more."""
        self._due_ms = None

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due, in the order in which it became due."""
        outcome = Outcome()
        while self._due_ms is not None and self._due_ms <= now_ms:
            for _, kind, member_id in sorted(timer for timer in self._timers() if timer[0] <= now_ms):
                if kind == "join":
                    self._expire_join(outcome, now_ms=now_ms)
                elif kind == "sync":
                    self._expire_sync(outcome, now_ms=now_ms)
                elif kind == "silence":
                    self._report_silence(member_id, now_ms=now_ms)
                else:
                    self._expire_session(member_id, outcome, now_ms=now_ms)
            self._due_ms = min((timer[0] for timer in self._timers()), default=None)
        return outcome

    def _timers(self) -> list[tuple[int, str, str]]:
        roster = self._generation.roster
        timers = [(member.deadline_ms, "session", member.member_id) for member in roster if member.deadline_ms is not None]
        timers += [
            (silence.due_ms(member.deadline_ms, member.session_timeout_ms), "silence", member.member_id)
            for member in roster
            if member.deadline_ms not in (None, member.reported_deadline_ms) and not member.is_waiting
        ]
        timers += [(deadline_ms, "session", member_id) for member_id, deadline_ms in roster.pending.items()]
        if self._join_deadline_ms is not None:
            timers.append((self._join_deadline_ms, "join", ""))
        if self._sync_deadline_ms is not None:
            timers.append((self._sync_deadline_ms, "sync", ""))
        return timers

    def _expire_join(self, outcome: Outcome, *, now_ms: int) -> None:
        if self._join_deadline_ms is None or self._join_deadline_ms > now_ms:
            return
        if self._generation.was_empty and self._has_new_member and self._initial_remaining_ms > 0:
            self._has_new_member = False
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
        missing = [member for member in self._generation.roster if member.member_id in self._pending_sync]
        if missing:
            for member in missing:
                logger.info("group %s: %s did not ask for its assignment, and is removed", self._generation.group_id, member.member_id)
                self.drop(member, outcome)
            self.prepare(outcome, now_ms=now_ms)

    def _report_silence(self, member_id: str, *, now_ms: int) -> None:
        member = self._generation.roster.get(member_id)
        if member is None or member.deadline_ms is None:
            return
        if member.deadline_ms > now_ms:
            timeout_ms = member.session_timeout_ms
            silence.report(self._generation.group_id, member_id, deadline_ms=member.deadline_ms, timeout_ms=timeout_ms, now_ms=now_ms)
        member.reported_deadline_ms = member.deadline_ms

    def _expire_session(self, member_id: str, outcome: Outcome, *, now_ms: int) -> None:
        roster = self._generation.roster
        member = roster.get(member_id)
        if member is None:
            if roster.pending.get(member_id, now_ms + 1) <= now_ms:
                roster.remove(member_id)
                self._complete_if_all_joined(outcome, now_ms=now_ms)
        elif member.deadline_ms is not None and member.deadline_ms <= now_ms:
            if member.is_excused:
                member.deadline_ms = None
                return
            silent_ms = member.session_timeout_ms
            logger.info("group %s: %s expired, without a sign of life for %d ms", self._generation.group_id, member_id, silent_ms)
            self.drop(member, outcome)
            if self._generation.state in (STABLE, COMPLETING_REBALANCE):
                self.prepare(outcome, now_ms=now_ms)
            else:
                self._complete_if_all_joined(outcome, now_ms=now_ms)
