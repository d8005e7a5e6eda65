"""The machine of the group coordinator: the groups and committed offsets of one partition of `__consumer_offsets`.

It is a `CoordinatorShard`: `apply` replays the log, and is the only way state comes back; `loaded` ends the replay. Then commands, ticks
and changed topics are decided one at a time, and each returns the records that say what was decided together with the answers. Nothing
here waits, and nothing is raised to the caller for what a client did wrong: errors are answers.

Its parts: the groups by id (`known_groups`), who is a member of which (`membership`), what is committed (`OffsetStore`) and how long it is
kept (`OffsetExpiry`). Offsets committed without any member make a "simple" group: classic, empty, without a protocol type, remembered by
its offsets alone.

Reads show what was decided, even if it is not committed yet: the runtime answers them when everything decided before is committed.
"""

from collections.abc import Collection, Sequence
from functools import partial
from uuid import UUID

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome, Waiter
from millstream.errors import GroupIdNotFound, GroupSubscribedToTopic, IllegalGeneration, KafkaError, StaleMemberEpoch
from millstream.groups.classic.generation import DEAD
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.commands import (
    CommitOffsets,
    CommitPendingOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    GroupCommand,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from millstream.groups.consumer.group import ConsumerGroup
from millstream.groups.consumer.records import ConsumerKey
from millstream.groups.group import Group
from millstream.groups.known_groups import KnownGroups
from millstream.groups.membership import Membership
from millstream.groups.offsets.expiry import OffsetExpiry
from millstream.groups.offsets.records import OFFSET_KEY_START, OffsetKey, decode_offset_key, decode_offset_value
from millstream.groups.offsets.repeated_commit import RepeatedCommit
from millstream.groups.offsets.store import OffsetStore, answer_commit
from millstream.groups.records import decode_record
from millstream.groups.settings import GroupSettings
from millstream.groups.topic_image import TopicImage, TopicInfo


class GroupCoordinatorShard:
    """Decides commands, and what time and topics bring."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._groups = KnownGroups(settings)
        self._membership = Membership(self._groups, settings)
        self._offsets = OffsetStore()
        self._expiry = OffsetExpiry(self._groups, self._offsets, settings)
        self._image: TopicImage | None = None

    # --- replay -------------------------------------------------------------------------------------------------------------------------

    def apply(self, record: CoordinatorRecord) -> None:
        """Replay one record; kinds that are not known are skipped. MalformedFrame if it makes no sense."""
        key, value = record
        if key[:2] == OFFSET_KEY_START:  # nearly all of them
            self._offsets.apply(decode_offset_key(key), None if value is None else decode_offset_value(value))
            return
        match decode_record(record):
            case (OffsetKey() as offset_key, committed):
                self._offsets.apply(offset_key, committed)
            case (str() as group_id, metadata):
                self._groups.apply_classic(group_id, metadata)
            case (ConsumerKey() as consumer_key, consumer_value):
                self._groups.apply_consumer(consumer_key, consumer_value)

    def apply_pending(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Take a record that stands in the log in a transaction of this producer: an offset waits for the transaction's end."""
        if record.key[:2] != OFFSET_KEY_START:
            self.apply(record)
            return
        key = decode_offset_key(record.key)
        committed = None if record.value is None else decode_offset_value(record.value)
        self._offsets.apply_pending(producer_id, key, committed)
        if committed is not None and self._groups.get(key.group_id) is None:
            self._groups.put(ClassicGroup(key.group_id, self._settings))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker stands in the log that ends the transaction of this producer: its offsets are real now, or gone."""
        self._offsets.end_transaction(producer_id, is_commit=is_commit)

    def loaded(self, now_ms: int) -> Outcome:
        """The log has been replayed: members get a whole session each, and time begins to count."""
        outcome = Outcome()
        for group_id in self._offsets.group_ids():
            if self._groups.get(group_id) is None:
                self._groups.put(ClassicGroup(group_id, self._settings))
        self._expiry.start(now_ms)
        for group in self._groups:
            outcome.merge(group.loaded(now_ms))
            self._groups.schedule(group.group_id, group.next_deadline_ms())
        if self._image is not None:
            image, self._image = self._image, None
            outcome.merge(self.topics_changed(image, now_ms))
        return outcome

    def unloaded(self) -> Outcome:
        """Answer every waiter with NOT_COORDINATOR; this shard is not used afterwards."""
        outcome = Outcome()
        for group in self._groups:
            outcome.merge(group.unloaded())
        return outcome

    # --- commands -----------------------------------------------------------------------------------------------------------------------

    def handle(self, command: GroupCommand, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Decide a command. The answer for `waiter` is in this outcome or in a later one."""
        match command:
            case ConsumerHeartbeat():
                outcome = self._membership.consumer_heartbeat(command, waiter, image=self._image or TopicImage(), now_ms=now_ms)
            case Heartbeat():
                outcome = self._membership.heartbeat(command, waiter, now_ms=now_ms)
            case CommitOffsets():
                outcome = self._commit(command, waiter, now_ms=now_ms)
            case JoinGroup():
                outcome = self._membership.join(command, waiter, now_ms=now_ms)
            case SyncGroup():
                outcome = self._membership.sync(command, waiter, now_ms=now_ms)
            case LeaveGroup():
                outcome = self._membership.leave(command, waiter, now_ms=now_ms)
            case DeleteOffsets():
                outcome = self._delete_offsets(command, waiter)
            case DeleteGroup():
                outcome = self._delete_group(command, waiter)
        group = self._groups.current(command.group_id)
        if group is not None and (deadline_ms := group.next_deadline_ms()) is not None:
            if deadline_ms <= now_ms:  # such as an initial delay of nothing, or a timer that comes late
                self._tick_group(command.group_id, group, outcome, now_ms=now_ms)
            else:
                self._groups.schedule(command.group_id, deadline_ms)
        return outcome

    def _tick_group(self, group_id: str, group: Group, outcome: Outcome, *, now_ms: int) -> None:
        """Do what is due in a group; the next request finds what it has become by that."""
        outcome.merge(group.tick(now_ms))
        group = self._groups.current(group_id) or group
        self._groups.schedule(group_id, group.next_deadline_ms())

    def _commit(self, command: CommitOffsets, waiter: Waiter, *, now_ms: int) -> Outcome:
        outcome = Outcome()
        group_id = command.group_id
        try:
            group = self._groups.get(group_id)
            if group is None:
                missing = GroupIdNotFound if command.understands_stale_epoch else IllegalGeneration
                group = self._make_simple_group(command, missing=missing)
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
            self._groups.put(group)
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

    def commit_pending(self, command: CommitPendingOffsets, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Decide a commit in a transaction. Nothing is different before its records are in the log, and handed to `apply_pending`."""
        outcome = Outcome()
        try:
            self._check_pending_commit(command)
        except KafkaError as error:
            outcome.reply(waiter, {"topics": answer_commit(command.topics, error.code)})
            return outcome
        topics, outcome.records = self._offsets.commit(
            command.group_id,
            command.topics,
            now_ms=now_ms,
            retention_ms=None,
            metadata_max=self._settings.offset_metadata_max_bytes,
            size_max=self._settings.max_batch_bytes,
            is_pending=True,
        )
        outcome.reply(waiter, {"topics": topics})
        return outcome

    def _check_pending_commit(self, command: CommitPendingOffsets) -> None:
        group = self._groups.get(command.group_id)
        try:
            if group is None:
                self._make_simple_group(command, missing=IllegalGeneration)
            else:
                group.check_pending_commit(command)
        except StaleMemberEpoch as error:
            raise IllegalGeneration(str(error)) from None  # producers know no other word for it

    def _make_simple_group(self, command: CommitOffsets | CommitPendingOffsets, *, missing: type[KafkaError]) -> ClassicGroup:
        """The group of a consumer without membership; it exists once an offset of its does. Raises `missing` if a member's is meant."""
        if command.generation_or_member_epoch >= 0:
            raise missing(f"there is no group {command.group_id}")
        self._groups.check_new(command.group_id)
        return ClassicGroup(command.group_id, self._settings)

    def _delete_offsets(self, command: DeleteOffsets, waiter: Waiter) -> Outcome:
        outcome = Outcome()
        try:
            group = self._groups.existing(command.group_id)
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
            group = self._groups.existing(command.group_id)
            group.check_deletion()
            # Offsets first: whatever part of this survives a crash, a group that still has offsets can be deleted again.
            self._offsets.remove_group(command.group_id, outcome=outcome)
            self._groups.forget(group, outcome)
        except KafkaError as error:
            error_code = error.code
        outcome.reply(waiter, {"group_id": command.group_id, "error_code": error_code})
        return outcome

    # --- time and topics ----------------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due: sessions, rebalances, expired offsets."""
        outcome = Outcome()
        for group_id in self._groups.pop_due(now_ms):
            group = self._groups.get(group_id)
            if group is not None:
                self._tick_group(group_id, group, outcome, now_ms=now_ms)
        self._expiry.tick(now_ms, outcome)
        return outcome

    def next_deadline_ms(self) -> int | None:
        """When to tick next, or earlier; a time that has passed means as soon as possible."""
        timer_ms, expiry_ms = self._groups.next_deadline_ms(), self._expiry.next_ms
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
        for group in self._groups:
            if isinstance(group, ConsumerGroup):  # the leader of a classic group watches topics itself
                outcome.merge(group.topics_changed(image, now_ms=now_ms, changed=changed))
                self._groups.schedule(group.group_id, group.next_deadline_ms())
        return outcome

    def _forget_former_topic(self, name: str, former: TopicInfo | None, current: TopicInfo | None, outcome: Outcome) -> None:
        """Positions in a topic that was deleted, or deleted and made again, are gone."""
        if former is not None and (current is None or current.topic_id != former.topic_id):
            self._offsets.remove_topic(name, unless_id=None if current is None else current.topic_id, outcome=outcome)

    # --- reads --------------------------------------------------------------------------------------------------------------------------

    def group_ids(self) -> list[str]:
        """All groups."""
        return [group.group_id for group in self._groups]

    def progress(self, group_id: str) -> tuple[str, int, list[tuple[str, int, int]]] | None:
        """How many members a group has, and what it has committed: topic, partition and offset. None if there is no such group."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        offsets = [(topic, partition, committed.offset) for topic, partition, committed in self._offsets.items(group_id)]
        return group_id, group.member_count, offsets

    def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[tuple[str, UUID | None, Sequence[int]]] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
        is_stable_required: bool = False,
    ) -> Fields:
        """One group of OffsetFetch: positions in the topics asked for, or all (None). A group that does not exist has none.

        `is_stable_required`: where one is pending in a transaction, UNSTABLE_OFFSET_COMMIT is the answer (KIP-447).
        """
        group = self._groups.get(group_id)
        error_code = 0
        if group is not None:
            try:
                group.check_fetch(member_id, member_epoch)
            except KafkaError as error:
                error_code = error.code
        if error_code:
            found: list[Fields] = []
        elif topics is None:
            found = self._offsets.fetch_all(group_id, self._image or TopicImage(), is_stable_required=is_stable_required)
        else:
            fetch = partial(self._offsets.fetch, group_id, is_stable_required=is_stable_required)
            found = [fetch(topic, topic_id=topic_id, partitions=partitions) for topic, topic_id, partitions in topics]
        return {"group_id": group_id, "error_code": error_code, "topics": found}

    def describe(self, group_id: str) -> Fields:
        """One group of DescribeGroups. A missing one is dead, with an error that only version 6 and later show."""
        group = self._groups.get(group_id)
        if group is None or not isinstance(group, ClassicGroup):
            reason = "not found" if group is None else "is not a classic group"
            return {
                "group_id": group_id,
                "error_code": GroupIdNotFound.code,
                "error_message": f"Group {group_id} {reason}.",
                "group_state": DEAD,
                "protocol_type": "",
                "protocol_data": "",
                "members": [],
            }
        return {"group_id": group_id, "error_code": 0, "error_message": None, **group.describe()}

    def describe_consumer(self, group_id: str) -> Fields:
        """One group of ConsumerGroupDescribe."""
        group = self._groups.consumer(group_id)
        if group is not None:
            return {"group_id": group_id, "error_code": 0, "error_message": None, **group.describe_consumer()}
        reason = "is not a consumer group" if self._groups.get(group_id) is not None else "not found"
        return {
            "group_id": group_id,
            "error_code": GroupIdNotFound.code,
            "error_message": f"Group {group_id} {reason}.",
            "group_state": "",
            "group_epoch": 0,
            "assignment_epoch": 0,
            "assignor_name": "",
            "members": [],
        }

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[Fields]:
        """The groups of ListGroups, in any of these states and of these types, whatever their case; empty means all."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        return [
            {"group_id": group.group_id, "protocol_type": group.protocol_type, "group_state": group.state, "group_type": group.group_type}
            for group in self._groups
            if (not wanted_states or group.state.lower() in wanted_states) and (not wanted_types or group.group_type in wanted_types)
        ]
