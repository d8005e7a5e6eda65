"""Who is a member of which group: joins, heartbeats and leaves find the group they mean, and the first one makes it.

Every group is of one kind at a time, and keeps its offsets when it changes. An empty group turns into one of the other kind with the first
member that joins by the other protocol. A group with members does as `group.consumer.migration.policy` says (`group_migration`): a classic
one when a KIP-848 member joins, a KIP-848 one when only classic members are left, which it takes in at any time.
"""

from typing import Final

from millstream.coordinator_shard import Outcome, Waiter
from millstream.errors import GroupIdNotFound, InvalidGroupId, InvalidRequest, InvalidSessionTimeout, KafkaError, UnknownMemberId
from millstream.groups.classic.answers import join_error, sync_answer
from millstream.groups.classic.generation import STABLE
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.commands import ConsumerHeartbeat, Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from millstream.groups.consumer.answers import consumer_heartbeat_error
from millstream.groups.consumer.group import ConsumerGroup
from millstream.groups.consumer.heartbeat_check import check_consumer_heartbeat
from millstream.groups.group import Group
from millstream.groups.group_migration import upgraded_members
from millstream.groups.known_groups import MAX_NAME_BYTES, KnownGroups
from millstream.groups.settings import GroupSettings
from millstream.groups.topic_image import TopicImage

_SURELY_SHORT: Final = MAX_NAME_BYTES // 4
"""No character has more than four bytes."""


class Membership:
    """Members come, stay and go."""

    __slots__ = ("_groups", "_settings")

    def __init__(self, groups: KnownGroups, settings: GroupSettings) -> None:
        self._groups = groups
        self._settings = settings

    # --- the classic protocol -----------------------------------------------------------------------------------------------------------

    def heartbeat(self, command: Heartbeat, waiter: Waiter, *, now_ms: int) -> Outcome:
        """A member lives."""
        outcome = Outcome()
        group = self._joined_group(command.group_id)
        if group is not None:
            outcome.reply(waiter, group.heartbeat(command, now_ms=now_ms))
        else:
            outcome.reply(waiter, {"error_code": _unless_empty(command.group_id)})
        return outcome

    def join(self, command: JoinGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Join a classic group, or a KIP-848 one as a classic member."""
        outcome = Outcome()
        try:
            self._check_join(command)
            mixed = self._groups.consumer(command.group_id)
            if mixed is not None and not mixed.is_empty:
                return mixed.join(command, waiter, now_ms=now_ms)
            group = self._group_to_join(command, now_ms=now_ms)
        except KafkaError as error:
            outcome.reply(waiter, join_error(error.code, member_id=command.member_id))
            return outcome
        former = self._groups.get(command.group_id)
        if former is group:
            return group.join(command, waiter, now_ms=now_ms)
        metadata = group.generation.record()
        decided = group.join(command, waiter, now_ms=now_ms)
        if group.has_clients:  # a member that is refused leaves no group behind
            if former is not None:
                self._groups.forget(former, outcome)
            self._groups.put(group)
            outcome.write(metadata)
        outcome.merge(decided)
        return outcome

    def _check_join(self, command: JoinGroup) -> None:
        if not command.group_id:
            raise InvalidGroupId("the group id is empty")
        settings = self._settings
        if not settings.min_session_timeout_ms <= command.session_timeout_ms <= settings.max_session_timeout_ms:
            raise InvalidSessionTimeout(f"a session timeout of {command.session_timeout_ms} ms")
        names = _names_of(command)
        if len("".join(names)) > _SURELY_SHORT and any(len(name.encode()) > MAX_NAME_BYTES for name in names):
            raise InvalidRequest("a name is too long")

    def _group_to_join(self, command: JoinGroup, *, now_ms: int) -> ClassicGroup:
        group = self._groups.get(command.group_id)
        if isinstance(group, ClassicGroup):
            return group
        if command.member_id:
            raise UnknownMemberId(f"there is no group {command.group_id}")
        self._groups.check_new(command.group_id)
        return ClassicGroup(command.group_id, self._settings, now_ms=now_ms)

    def _joined_group(self, group_id: str) -> Group | None:
        """A group that may have members: the one without a name never has, though offsets can be committed in it."""
        return self._groups.get(group_id) if group_id else None

    def sync(self, command: SyncGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Bring or get an assignment."""
        group = self._joined_group(command.group_id)
        if group is not None:
            return group.sync(command, waiter, now_ms=now_ms)
        outcome = Outcome()
        outcome.reply(waiter, sync_answer(_unless_empty(command.group_id)))
        return outcome

    def leave(self, command: LeaveGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Members go."""
        group = self._joined_group(command.group_id)
        if group is not None:
            return group.leave(command, waiter, now_ms=now_ms)
        outcome = Outcome()
        if not command.group_id:
            outcome.reply(waiter, {"error_code": InvalidGroupId.code, "members": []})
        else:
            members = [
                {"member_id": member.member_id, "group_instance_id": member.instance_id, "error_code": UnknownMemberId.code}
                for member in command.members
            ]
            outcome.reply(waiter, {"error_code": 0, "members": members})
        return outcome

    # --- KIP-848 ------------------------------------------------------------------------------------------------------------------------

    def consumer_heartbeat(self, command: ConsumerHeartbeat, waiter: Waiter, *, image: TopicImage, now_ms: int) -> Outcome:
        """Join, stay in or leave a KIP-848 group."""
        group = self._groups.consumer(command.group_id)
        if group is not None:
            return group.handle(command, waiter, now_ms=now_ms)
        outcome = Outcome()
        former = self._groups.get(command.group_id)
        try:
            group = self._new_consumer_group(command)
            migrated = self._migrate(former, group, image=image, now_ms=now_ms)
        except KafkaError as error:
            outcome.reply(waiter, consumer_heartbeat_error(error))
            return outcome
        decided = group.handle(command, waiter, now_ms=now_ms)
        if decided.records:  # a heartbeat that is refused leaves no group behind, and the former one as it was
            if isinstance(former, ClassicGroup):
                self._groups.forget(former, outcome)
                outcome.merge(former.give_way())
            self._groups.put(group)
            outcome.merge(migrated)
        outcome.merge(decided)
        return outcome

    def _new_consumer_group(self, command: ConsumerHeartbeat) -> ConsumerGroup:
        check_consumer_heartbeat(command, self._settings)
        if command.member_epoch != 0:
            raise GroupIdNotFound(f"Group {command.group_id} not found.")
        if self._groups.get(command.group_id) is None:
            self._groups.check_new(command.group_id)
        return self._groups.new_consumer(command.group_id)

    def _migrate(self, former: Group | None, group: ConsumerGroup, *, image: TopicImage, now_ms: int) -> Outcome:
        """What a new group has to know before its first member joins: the topics, and the members of the classic group that it replaces."""
        outcome = group.topics_changed(image, now_ms=now_ms)
        if isinstance(former, ClassicGroup) and not former.is_empty:
            members = upgraded_members(former, image, settings=self._settings)
            is_rebalancing = former.state != STABLE
            outcome.merge(group.take_over(members, epoch=former.generation.generation_id, is_rebalancing=is_rebalancing, now_ms=now_ms))
        return outcome


def _unless_empty(group_id: str) -> int:
    return UnknownMemberId.code if group_id else InvalidGroupId.code


def _names_of(command: JoinGroup) -> list[str]:
    names = [command.protocol_type, command.client_id, command.client_host, command.instance_id or ""]
    return [*names, *(protocol.name for protocol in command.protocols)]
