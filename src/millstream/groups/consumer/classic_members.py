"""Members of a KIP-848 group that speak the classic protocol, while a group moves from one to the other (KIP-848, online migration).

They are members like all others: the coordinator assigns, each gets on at its own pace, and the group waits for none. Their requests are
translated:

    JoinGroup   is a heartbeat that says everything: subscription, and what the member owns (it stands in the subscription). Answered at
                once: generation = member epoch. No member leads, so every client takes itself for a follower and asks for its assignment
    SyncGroup   what the member may have by now, in the format of its own protocol. REBALANCE_IN_PROGRESS if there is a newer epoch by now
    Heartbeat   REBALANCE_IN_PROGRESS if the member has to join again: the group has a newer epoch, or the member has to say that it gave up
                partitions, or all that it waits for is free by now
    LeaveGroup  as tools use it in any KIP-848 group

    A client of the eager kind gives everything up before it joins, one of the cooperative kind joins once more when it gave something up.

A member that heard of a rebalance has its rebalance timeout to join, and one that joined has as long to ask for its assignment; then it
is fenced. Kafka's words and order of checks.
"""

from typing import Final

from millstream.coordinator_shard import Fields, Outcome, Waiter
from millstream.errors import (
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    KafkaError,
    MalformedFrame,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
)
from millstream.groups.classic.answers import join_error, sync_answer
from millstream.groups.commands import Heartbeat, JoinGroup, SyncGroup
from millstream.groups.consumer.admission import held_by, known_member
from millstream.groups.consumer.member import UNKNOWN_MEMBER, ConsumerMember
from millstream.groups.consumer.rebalance import ConsumerRebalance
from millstream.groups.consumer.reconciliation import MemberState
from millstream.groups.consumer.records import ClassicProtocols, ConsumerRecordType, MemberMetadata, encode_consumer_value
from millstream.groups.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    by_id,
    by_name,
    decode_subscription,
    encode_assignment,
    version_of,
)

_NAMES_BYTES: Final = 10 * 32_767
"""More than the names in a member's record take, each of which has at most 32 767 bytes."""


class ClassicMembers:
    """The requests of the classic protocol."""

    __slots__ = ("_rebalance", "_settings", "_state")

    def __init__(self, rebalance: ConsumerRebalance) -> None:
        self._rebalance = rebalance
        self._settings = rebalance.settings
        self._state = rebalance.state

    # --- JoinGroup ------------------------------------------------------------------------------------------------------------------------

    def join(self, command: JoinGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Let a classic member join, or join again; errors are answers."""
        outcome = Outcome()
        try:
            reply = self._join(command, outcome, now_ms=now_ms)
        except KafkaError as error:
            outcome = Outcome()
            reply = join_error(error.code)
        outcome.reply(waiter, reply)
        return outcome

    def _join(self, command: JoinGroup, outcome: Outcome, *, now_ms: int) -> Fields:
        member_id = command.member_id or self._rebalance.new_member_id()
        self._check_room(member_id)
        self._check_protocols(command)
        if not command.member_id and command.instance_id is None and command.requires_known_member_id:
            return join_error(MemberIdRequired.code, member_id=member_id)
        existing, replaced = self._joiner(command, member_id)
        base = existing or replaced
        subscription = _subscription(command, self._settings.max_batch_bytes)
        metadata = _joined(UNKNOWN_MEMBER if base is None else base.metadata, command, subscription)
        self._check_size(metadata)
        # From here on nothing is refused.
        is_downgrade = base is not None and self._goes_with_the_last_other(base, command)
        dropped = base.metadata.subscribed_topic_regex if base is not None else None
        has_changed = bool(dropped) or metadata.subscribed_topic_names != (base.metadata.subscribed_topic_names if base is not None else ())
        if replaced is not None:
            self._rebalance.replace(replaced, member_id, outcome)
        if base is None or metadata != base.metadata:
            self._rebalance.write(outcome, ConsumerRecordType.MEMBER_METADATA, metadata, name=member_id)
        if dropped:
            self._rebalance.forget_expression(dropped, outcome)
        if has_changed:
            self._rebalance.bump(outcome)
        member = self._state.members[member_id]
        self._assign(member, subscription, outcome, has_changed=has_changed, is_downgrade=is_downgrade, now_ms=now_ms)
        return _joined_answer(member)

    def _assign(
        self, member: ConsumerMember, subscription: Subscription, outcome: Outcome, *, has_changed: bool, is_downgrade: bool, now_ms: int
    ) -> None:
        """The second and third step of a heartbeat; or the end of the group, if it is no longer needed."""
        owned = by_id(subscription.owned, self._rebalance.subscriptions.image)
        if is_downgrade:
            if not has_changed:
                self._rebalance.reconcile(member, outcome, owned=owned, subscription_changed=False, now_ms=now_ms)
            # Where a member still waits for partitions Kafka has no rebalance either, and they are not read until the next one.
            is_settled = all(other.is_reconciled_to(self._state.epoch) for other in self._state.members.values())
            if self._rebalance.downgrade((), outcome, needs_rebalance=has_changed or not is_settled, now_ms=now_ms):
                return
        if self._state.epoch > self._state.target_epoch:
            self._rebalance.compute_target(outcome)
        self._rebalance.reconcile(member, outcome, owned=owned, subscription_changed=has_changed, now_ms=now_ms)
        self._rebalance.extend_session(member, now_ms)
        member.rebalance_deadline_ms = member.join_deadline_ms = None
        member.sync_deadline_ms = now_ms + member.metadata.rebalance_timeout_ms
        self._rebalance.watch(member.sync_deadline_ms)

    def _check_room(self, member_id: str) -> None:
        limit = self._settings.consumer_max_group_size
        if len(self._state.members) >= limit and member_id not in self._state.members:
            raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {limit} members.")

    def _check_size(self, metadata: MemberMetadata) -> None:
        """Refuse what would not fit into a record; what is surely small is not encoded for that."""
        assert metadata.classic is not None
        subscriptions = sum(len(subscription) for _, subscription in metadata.classic.protocols)
        limit = self._settings.max_batch_bytes
        if 2 * subscriptions > limit - _NAMES_BYTES and len(encode_consumer_value(metadata)) > limit:
            raise InvalidRequest("the subscription is too large")

    def _check_protocols(self, command: JoinGroup) -> None:
        """One of the protocols has to be offered by all classic members, so that they can be a classic group again."""
        agrees = any(self._state.classic_protocols[protocol.name] == self._state.classic_count for protocol in command.protocols)
        if command.protocol_type != CONSUMER_PROTOCOL_TYPE or not agrees:
            raise InconsistentGroupProtocol(f"Member {command.member_id}'s protocols are not supported.")

    def _joiner(self, command: JoinGroup, member_id: str) -> tuple[ConsumerMember | None, ConsumerMember | None]:
        """The member that is meant, and the static member whose place it takes; both None for a new member."""
        if command.instance_id is None:
            return self._state.members.get(member_id), None
        if command.member_id:
            return held_by(self._state, member_id, command.instance_id), None
        return None, self._state.members.get(self._state.static_members.get(command.instance_id, ""))

    def _goes_with_the_last_other(self, base: ConsumerMember, command: JoinGroup) -> bool:
        """Whether a static member that spoke the new protocol as the last one now comes with the classic one."""
        is_static = command.instance_id is not None and base.metadata.instance_id == command.instance_id
        is_last = base.metadata.classic is None and self._rebalance.are_all_classic_except((base,))
        return is_static and is_last and self._settings.allows_downgrade

    # --- SyncGroup and Heartbeat ----------------------------------------------------------------------------------------------------------

    def sync(self, command: SyncGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Give a classic member what it may have by now."""
        outcome = Outcome()
        try:
            member, classic = self._classic_member(command.member_id, command.instance_id, generation_id=command.generation_id)
            _check_agreed(classic, command)
            version = _version(classic)
            if self._state.epoch > member.current.member_epoch and member.current.state != MemberState.UNREVOKED_PARTITIONS:
                self._expect_join(member, now_ms)
                raise RebalanceInProgress("join again")
        except KafkaError as error:
            outcome.reply(waiter, sync_answer(error.code))
            return outcome
        member.sync_deadline_ms = None
        self._rebalance.extend_session(member, now_ms)
        assigned = by_name(member.current.assigned, self._rebalance.subscriptions.image)
        assignment = encode_assignment(assigned, version=version)
        answer = sync_answer(0, protocol_type=command.protocol_type, protocol_name=command.protocol_name, assignment=assignment)
        outcome.reply(waiter, answer)
        return outcome

    def heartbeat(self, command: Heartbeat, *, now_ms: int) -> Fields:
        """Renew the session of a classic member, and say whether it has to join again."""
        try:
            member, _ = self._classic_member(command.member_id, command.instance_id, generation_id=command.generation_id)
        except KafkaError as error:
            return {"error_code": error.code}
        self._rebalance.extend_session(member, now_ms)
        if not self._has_to_join(member):
            return {"error_code": 0}
        self._expect_join(member, now_ms)
        return {"error_code": RebalanceInProgress.code}

    def _classic_member(self, member_id: str, instance_id: str | None, *, generation_id: int) -> tuple[ConsumerMember, ClassicProtocols]:
        member = known_member(self._state, member_id) if instance_id is None else held_by(self._state, member_id, instance_id)
        classic = member.metadata.classic
        if classic is None:
            raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
        epoch = member.current.member_epoch
        if generation_id != epoch:
            raise IllegalGeneration(f"The request generation id {generation_id} is not equal to the member epoch {epoch} of {member_id}.")
        return member, classic

    def _has_to_join(self, member: ConsumerMember) -> bool:
        current = member.current
        if current.member_epoch < self._state.epoch or current.state == MemberState.UNREVOKED_PARTITIONS:
            return True
        return current.state == MemberState.UNRELEASED_PARTITIONS and not self._waits_for_others(member)

    def _waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether something that it should have still belongs to another member."""
        has = {topic_id: frozenset(numbers) for topic_id, numbers in member.current.assigned}
        return any(
            number not in has.get(topic_id, ()) and self._state.owner(topic_id, number) is not None
            for topic_id, numbers in self._state.target.get(member.member_id, ())
            for number in numbers
        )

    def _expect_join(self, member: ConsumerMember, now_ms: int) -> None:
        if member.join_deadline_ms is None:
            member.join_deadline_ms = now_ms + member.metadata.rebalance_timeout_ms
            self._rebalance.watch(member.join_deadline_ms)


def _subscription(command: JoinGroup, limit_bytes: int) -> Subscription:
    """What the member says of itself; it is the same under all protocols. What fits into no record is not read, which would take long."""
    if sum(len(protocol.metadata) for protocol in command.protocols) > limit_bytes:
        raise InvalidRequest("the subscription is too large")
    try:
        return decode_subscription(command.protocols[0].metadata)
    except MalformedFrame as error:
        raise UnknownServerError(f"Malformed embedded consumer protocol in subscription deserialization: {error}") from None


def _version(classic: ClassicProtocols) -> int:
    """Of the subscription that its assignment answers; a group that was classic could read the one they agreed on, which may be another."""
    try:
        return version_of(classic.protocols[0][1])
    except MalformedFrame as error:
        raise UnknownServerError(f"Malformed embedded consumer protocol in version deserialization: {error}") from None


def _joined(metadata: MemberMetadata, command: JoinGroup, subscription: Subscription) -> MemberMetadata:
    """The metadata after a JoinGroup. A classic client looks for the topics of an expression itself, and subscribes to their names."""
    session_timeout_ms = command.session_timeout_ms
    return MemberMetadata(
        instance_id=metadata.instance_id if command.instance_id is None else command.instance_id,
        rack_id=metadata.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=command.rebalance_timeout_ms if command.rebalance_timeout_ms >= 0 else session_timeout_ms,
        server_assignor=metadata.server_assignor,
        classic=ClassicProtocols(session_timeout_ms, tuple((one.name, one.metadata) for one in command.protocols)),
    )


def _joined_answer(member: ConsumerMember) -> Fields:
    assert member.metadata.classic is not None
    return {
        "error_code": 0,
        "generation_id": member.current.member_epoch,
        "protocol_type": CONSUMER_PROTOCOL_TYPE,
        "protocol_name": member.metadata.classic.protocols[0][0],
        "leader": "",
        "skip_assignment": False,
        "member_id": member.member_id,
        "members": [],
    }


def _check_agreed(classic: ClassicProtocols, command: SyncGroup) -> None:
    for asked, agreed in ((command.protocol_type, CONSUMER_PROTOCOL_TYPE), (command.protocol_name, classic.protocols[0][0])):
        if asked is not None and asked != agreed:
            raise InconsistentGroupProtocol(f"the member agreed on {agreed}, not on {asked}")
