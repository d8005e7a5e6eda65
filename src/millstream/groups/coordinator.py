"""One shard of the group coordinator: the groups and committed offsets of one partition of `__consumer_offsets`.

A pure machine. `apply` replays the log, and is the only way state comes back; `loaded` ends the replay. Then commands, ticks and changed
topics are decided one at a time, and each returns the records that say what was decided together with the answers that may go out once they
are committed. Nothing here waits, and nothing is raised to the caller for what a client did wrong: errors are answers.

Every group is of one kind at a time, and keeps its offsets when it changes. An empty group turns into one of the other kind when somebody
joins it with the other protocol. A group with members does as `group.consumer.migration.policy` says (`group_migration`): a classic one
when a KIP-848 member joins, a KIP-848 one when only classic members are left, which it takes in at any time. Offsets committed without any
member make a "simple" group: classic, empty, without a protocol type, remembered by its offsets alone.

What a shard knows, its replay and its reads are in `shard`.
"""

from collections.abc import Collection
from typing import Final, cast

from millstream.coordinator_shard import Outcome, Waiter
from millstream.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    KafkaError,
    UnknownMemberId,
)
from millstream.groups.classic.answers import join_error, sync_answer
from millstream.groups.classic.generation import STABLE
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.commands import (
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    GroupCommand,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from millstream.groups.consumer.answers import consumer_heartbeat_error
from millstream.groups.consumer.heartbeat_check import check_consumer_heartbeat
from millstream.groups.group import CLASSIC, ConsumerMachine, Group
from millstream.groups.group_migration import upgraded_members
from millstream.groups.offsets.expiry import OffsetExpiry
from millstream.groups.offsets.repeated_commit import RepeatedCommit
from millstream.groups.offsets.store import answer_commit
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupShard, MakeConsumerGroup
from millstream.groups.timers import GroupTimers
from millstream.groups.topic_image import TopicImage, TopicInfo

_MAX_NAME_BYTES: Final = 32_767
"""The records have lengths of 16 bits."""
_SURELY_SHORT: Final = _MAX_NAME_BYTES // 4
"""No character has more than four bytes."""


class GroupCoordinatorShard(GroupShard):
    """Decides commands, and what time and topics bring."""

    def __init__(self, settings: GroupSettings, *, consumer_group: MakeConsumerGroup | None = None) -> None:
        super().__init__(settings, consumer_group=consumer_group)
        self._timers = GroupTimers()
        self._expiry = OffsetExpiry(self._groups, self._offsets, settings=settings, delete=self._delete)

    def loaded(self, now_ms: int) -> Outcome:
        """The log has been replayed: members get a whole session each, and time begins to count."""
        outcome = Outcome()
        for group_id in self._offsets.group_ids():
            if group_id not in self._groups:
                self._groups[group_id] = ClassicGroup(group_id, self._settings)
        self._expiry.start(now_ms)
        for group in list(self._groups.values()):
            outcome.merge(group.loaded(now_ms))
            self._timers.schedule(group.group_id, group.next_deadline_ms())
        if self._image is not None:
            image, self._image = self._image, None
            outcome.merge(self.topics_changed(image, now_ms))
        return outcome

    def unloaded(self) -> Outcome:
        """Answer every waiter with NOT_COORDINATOR; this shard is not used afterwards."""
        outcome = Outcome()
        for group in self._groups.values():
            outcome.merge(group.unloaded())
        return outcome

    # --- commands -----------------------------------------------------------------------------------------------------------------------

    def handle(self, command: GroupCommand, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Decide a command. The answer for `waiter` is in this outcome or in a later one."""
        match command:
            case ConsumerHeartbeat():
                outcome = self._consumer_heartbeat(command, waiter, now_ms=now_ms)
            case Heartbeat():
                outcome = self._heartbeat(command, waiter, now_ms=now_ms)
            case CommitOffsets():
                outcome = self._commit(command, waiter, now_ms=now_ms)
            case JoinGroup():
                outcome = self._join(command, waiter, now_ms=now_ms)
            case SyncGroup():
                outcome = self._sync(command, waiter, now_ms=now_ms)
            case LeaveGroup():
                outcome = self._leave(command, waiter, now_ms=now_ms)
            case DeleteOffsets():
                outcome = self._delete_offsets(command, waiter)
            case DeleteGroup():
                outcome = self._delete_group(command, waiter)
        group = self._present_group(command.group_id)
        if group is not None and (deadline_ms := group.next_deadline_ms()) is not None:
            if deadline_ms <= now_ms:  # such as an initial delay of nothing, or a timer that comes late
                self._tick_group(command.group_id, group, outcome, now_ms=now_ms)
            else:
                self._timers.schedule(command.group_id, deadline_ms)
        return outcome

    def _tick_group(self, group_id: str, group: Group, outcome: Outcome, *, now_ms: int) -> None:
        """Do what is due in a group; the next request finds what it has become by that."""
        outcome.merge(group.tick(now_ms))
        group = self._present_group(group_id) or group
        self._timers.schedule(group_id, group.next_deadline_ms())

    def _present_group(self, group_id: str) -> Group | None:
        """The group after a change, which may have made another one of it."""
        group = self._groups.get(group_id)
        if group is not None and group.group_type != CLASSIC:
            successor = cast("ConsumerMachine", group).successor
            if successor is not None:
                group = self._groups[group_id] = successor
        return group

    def _commit(self, command: CommitOffsets, waiter: Waiter, *, now_ms: int) -> Outcome:
        outcome = Outcome()
        group_id = command.group_id
        try:
            group = self._groups.get(group_id)
            if group is None:
                group = self._make_simple_group(command)
            group.check_commit(command, now_ms=now_ms)
        except KafkaError as error:
            outcome.reply(waiter, {"topics": answer_commit(command.topics, error.code)})
            return outcome
        topics, outcome.records = self._offsets.commit(
            group_id,
            command.topics,
            now_ms=now_ms,
            retention_ms=command.retention_ms,
            metadata_max=self._settings.offset_metadata_max_bytes,
            size_max=self._settings.max_batch_bytes,
        )
        if outcome.records:
            self._groups.setdefault(group_id, group)
        outcome.reply(waiter, {"topics": topics})
        return outcome

    def commit_again(
        self, commit: RepeatedCommit, offsets: tuple[int, ...], leader_epochs: tuple[int, ...], *, now_ms: int
    ) -> bytes | None:
        """Commit what was committed before with other numbers; the records, encoded.

        None if the group does not take it as it is: it then has to come as a `CommitOffsets`, which says why. The deadlines of a group
        only move away with a commit, so nothing need be scheduled.
        """
        group = self._groups.get(commit.command.group_id)
        if group is None:
            return None
        try:
            group.check_commit(commit.command, now_ms=now_ms)
        except KafkaError:
            return None
        self._offsets.commit_again(commit, offsets, leader_epochs, now_ms=now_ms)
        return commit.encode_records(offsets, leader_epochs, now_ms=now_ms)

    def _make_simple_group(self, command: CommitOffsets) -> ClassicGroup:
        """The group of a consumer without membership; it exists once an offset of its does."""
        if command.generation_or_member_epoch >= 0:
            missing = GroupIdNotFound if command.understands_stale_epoch else IllegalGeneration
            raise missing(f"there is no group {command.group_id}")
        self._check_new_group(command.group_id)
        return ClassicGroup(command.group_id, self._settings)

    def _check_new_group(self, group_id: str) -> None:
        if len(group_id.encode()) > _MAX_NAME_BYTES:
            raise InvalidGroupId("the group id is too long")
        if len(self._groups) >= self._settings.max_groups:
            raise CoordinatorNotAvailable(f"there are {len(self._groups)} groups already")

    def _heartbeat(self, command: Heartbeat, waiter: Waiter, *, now_ms: int) -> Outcome:
        outcome = Outcome()
        group = self._joined_group(command.group_id)
        if group is not None:
            outcome.reply(waiter, group.heartbeat(command, now_ms=now_ms))
        else:
            outcome.reply(waiter, {"error_code": _unless_empty(command.group_id)})
        return outcome

    def _join(self, command: JoinGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        outcome = Outcome()
        try:
            self._check_join(command)
            mixed = self._consumer_group(command.group_id)
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
        if group.has_anybody:  # a member that is refused leaves no group behind
            if former is not None:
                self._forget(former, outcome)
            self._groups[command.group_id] = group
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
        if len("".join(names)) > _SURELY_SHORT and any(len(name.encode()) > _MAX_NAME_BYTES for name in names):
            raise InvalidRequest("a name is too long")

    def _group_to_join(self, command: JoinGroup, *, now_ms: int) -> ClassicGroup:
        group = self._groups.get(command.group_id)
        if isinstance(group, ClassicGroup):
            return group
        if command.member_id:
            raise UnknownMemberId(f"there is no group {command.group_id}")
        self._check_new_group(command.group_id)
        return ClassicGroup(command.group_id, self._settings, now_ms=now_ms)

    def _joined_group(self, group_id: str) -> ClassicGroup | ConsumerMachine | None:
        """A group that may have members: the one without a name never has, though offsets can be committed in it."""
        group = self._groups.get(group_id) if group_id else None
        return group if isinstance(group, ClassicGroup) else self._consumer_group(group_id)

    def _sync(self, command: SyncGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        group = self._joined_group(command.group_id)
        if group is not None:
            return group.sync(command, waiter, now_ms=now_ms)
        outcome = Outcome()
        outcome.reply(waiter, sync_answer(_unless_empty(command.group_id)))
        return outcome

    def _leave(self, command: LeaveGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
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

    def _consumer_heartbeat(self, command: ConsumerHeartbeat, waiter: Waiter, *, now_ms: int) -> Outcome:
        group = self._consumer_group(command.group_id)
        if group is not None:
            return group.handle(command, waiter, now_ms=now_ms)
        outcome = Outcome()
        former = self._groups.get(command.group_id)
        try:
            group = self._new_consumer_group(command)
            migrated = self._migrate(former, group, now_ms=now_ms)
        except KafkaError as error:
            outcome.reply(waiter, consumer_heartbeat_error(error))
            return outcome
        decided = group.handle(command, waiter, now_ms=now_ms)
        if decided.records:  # a heartbeat that is refused leaves no group behind, and the former one as it was
            if isinstance(former, ClassicGroup):
                self._forget(former, outcome)
                outcome.merge(former.give_way())
            self._groups[command.group_id] = group
            outcome.merge(migrated)
        outcome.merge(decided)
        return outcome

    def _migrate(self, former: Group | None, group: ConsumerMachine, *, now_ms: int) -> Outcome:
        """What a new group has to know before its first member joins: the topics, and the members of the classic group that it replaces."""
        image = self._image or TopicImage()
        outcome = group.topics_changed(image, now_ms=now_ms)
        if isinstance(former, ClassicGroup) and not former.is_empty:
            members = upgraded_members(former, image, settings=self._settings)
            is_rebalancing = former.state != STABLE
            outcome.merge(group.take_over(members, epoch=former.generation.generation_id, is_rebalancing=is_rebalancing, now_ms=now_ms))
        return outcome

    def _new_consumer_group(self, command: ConsumerHeartbeat) -> ConsumerMachine:
        check_consumer_heartbeat(command, self._settings)
        if command.member_epoch != 0 or self._make_consumer_group is None:
            raise GroupIdNotFound(f"Group {command.group_id} not found.")
        former = self._groups.get(command.group_id)
        if former is None:
            self._check_new_group(command.group_id)
        return self._make_consumer_group(command.group_id, self._settings)

    def _delete_offsets(self, command: DeleteOffsets, waiter: Waiter) -> Outcome:
        outcome = Outcome()
        try:
            group = self._existing(command.group_id)
            group.check_offset_deletion()
        except KafkaError as error:
            outcome.reply(waiter, {"error_code": error.code, "topics": []})
            return outcome
        topics = []
        for topic, partitions in command.topics:
            error_code = GroupSubscribedToTopic.code if group.is_subscribed_to(topic) else 0
            if not error_code:
                for partition in partitions:
                    self._offsets.remove(command.group_id, topic, partition, outcome=outcome)
            results = [{"partition_index": partition, "error_code": error_code} for partition in partitions]
            topics.append({"name": topic, "partitions": results})
        outcome.reply(waiter, {"error_code": 0, "topics": topics})
        return outcome

    def _delete_group(self, command: DeleteGroup, waiter: Waiter) -> Outcome:
        outcome = Outcome()
        error_code = 0
        try:
            group = self._existing(command.group_id)
            group.check_deletion()
            self._delete(group, outcome)
        except KafkaError as error:
            error_code = error.code
        outcome.reply(waiter, {"group_id": command.group_id, "error_code": error_code})
        return outcome

    def _delete(self, group: Group, outcome: Outcome) -> None:
        """Offsets first: whatever part of this survives a crash, a group that still has offsets can be deleted again."""
        self._offsets.remove_group(group.group_id, outcome=outcome)
        self._forget(group, outcome)

    def _forget(self, group: Group, outcome: Outcome) -> None:
        outcome.records += group.tombstones()
        del self._groups[group.group_id]

    # --- time and topics ----------------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due: sessions, rebalances, expired offsets."""
        outcome = Outcome()
        for group_id in self._timers.pop_due(now_ms):
            group = self._groups.get(group_id)
            if group is not None:
                self._tick_group(group_id, group, outcome, now_ms=now_ms)
        self._expiry.tick(now_ms, outcome)
        return outcome

    def next_deadline_ms(self) -> int | None:
        """When to tick next, or earlier; a time that has passed means as soon as possible."""
        timer_ms, expiry_ms = self._timers.next_deadline_ms(), self._expiry.next_ms
        if timer_ms is None or expiry_ms is None:
            return expiry_ms if timer_ms is None else timer_ms
        return min(timer_ms, expiry_ms)

    def topics_changed(self, image: TopicImage, now_ms: int, *, changed: Collection[str] | None = None) -> Outcome:
        """The topics are these now: offsets of deleted ones go, KIP-848 groups assign anew. Before `loaded` it is only kept until then.

        `changed` names those that may be different from the last time; all others are not looked at. None if that is not known.
        """
        outcome = Outcome()
        former, self._image = self._image, image
        if self._expiry.next_ms is None:
            return outcome
        if former is None:
            changed = None
            self._offsets.remove_other_topics_of_the_same_name(image, outcome=outcome)
        else:
            for name in former.topics if changed is None else changed:
                self._forget_former_topic(name, former.topics.get(name), image.topics.get(name), outcome)
        for group in list(self._groups.values()):
            if group.group_type != CLASSIC:  # the leader of a classic group watches topics itself
                outcome.merge(cast("ConsumerMachine", group).topics_changed(image, now_ms=now_ms, changed=changed))
                self._timers.schedule(group.group_id, group.next_deadline_ms())
        return outcome

    def _forget_former_topic(self, name: str, former: TopicInfo | None, current: TopicInfo | None, outcome: Outcome) -> None:
        """Positions in a topic that was deleted, or deleted and made again, are gone."""
        if former is not None and (current is None or current.topic_id != former.topic_id):
            self._offsets.remove_topic(name, unless_id=None if current is None else current.topic_id, outcome=outcome)


def _unless_empty(group_id: str) -> int:
    return UnknownMemberId.code if group_id else InvalidGroupId.code


def _names_of(command: JoinGroup) -> list[str]:
    names = [command.protocol_type, command.client_id, command.client_host, command.instance_id or ""]
    return [*names, *(protocol.name for protocol in command.protocols)]
