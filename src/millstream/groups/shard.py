"""What one shard of the group coordinator knows: the groups and committed offsets of one partition of `__consumer_offsets`.

State and how it comes back (`apply`, the replay of the log), and what can be read from it. What changes it by decision is in `coordinator`.
A group is of one kind at a time. Offsets without a group belong to a "simple" group: classic, empty, without a protocol type.

Reads show what was decided, even if it is not committed yet: the shell answers them when everything decided before is committed.
"""

from collections.abc import Callable, Collection, Sequence
from uuid import UUID

from millstream.coordinator_shard import CoordinatorRecord, Fields
from millstream.errors import GroupIdNotFound, KafkaError
from millstream.groups.classic.generation import DEAD
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.classic.records import GroupMetadata
from millstream.groups.consumer.records import ConsumerKey, ConsumerValue
from millstream.groups.group import CLASSIC, ConsumerMachine, Group
from millstream.groups.offsets.records import OFFSET_KEY_START, OffsetKey, decode_offset_key, decode_offset_value
from millstream.groups.offsets.store import OffsetStore
from millstream.groups.records import decode_record
from millstream.groups.settings import GroupSettings
from millstream.groups.topic_image import TopicImage

MakeConsumerGroup = Callable[[str, GroupSettings], ConsumerMachine]


class GroupShard:
    """Groups by id, and their offsets."""

    def __init__(self, settings: GroupSettings, *, consumer_group: MakeConsumerGroup | None = None) -> None:
        self._settings = settings
        self._make_consumer_group = consumer_group
        self._groups: dict[str, Group] = {}
        self._offsets = OffsetStore()
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
            case (str() as group_id, GroupMetadata() as metadata):
                group = ClassicGroup(group_id, self._settings)
                group.generation.restore(metadata)
                self._groups[group_id] = group
            case (str() as group_id, None):
                if isinstance(self._groups.get(group_id), ClassicGroup):
                    del self._groups[group_id]
            case (ConsumerKey() as consumer_key, consumer_value):
                self._apply_consumer(consumer_key, consumer_value)

    def _apply_consumer(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        group = self._consumer_group(key.group_id)
        if group is None:
            if value is None or self._make_consumer_group is None:
                return
            group = self._make_consumer_group(key.group_id, self._settings)
            self._groups[key.group_id] = group
        group.apply(key, value)
        if group.is_gone:
            del self._groups[key.group_id]

    def _consumer_group(self, group_id: str) -> ConsumerMachine | None:
        group = self._groups.get(group_id)
        if group is None or group.group_type == CLASSIC:
            return None
        return group  # type: ignore[return-value]  # only `_make_consumer_group` makes groups of the other kind

    def _existing(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    # --- reads --------------------------------------------------------------------------------------------------------------------------

    def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[tuple[str, UUID | None, Sequence[int]]] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Fields:
        """One group of OffsetFetch: positions in the topics asked for, or all (None). A group that does not exist has none."""
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
            found = self._offsets.fetch_all(group_id, self._image or TopicImage())
        else:
            found = [
                self._offsets.fetch(group_id, topic, topic_id=topic_id, partitions=partitions) for topic, topic_id, partitions in topics
            ]
        return {"group_id": group_id, "error_code": error_code, "topics": found}

    def describe(self, group_id: str) -> Fields:
        """One group of DescribeGroups. A missing one is dead, with an error that only version 6 and later show."""
        group = self._groups.get(group_id)
        if group is None or group.group_type != CLASSIC:
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
        group = self._consumer_group(group_id)
        if group is not None:
            return {"group_id": group_id, "error_code": 0, "error_message": None, **group.describe_consumer()}
        reason = "is not a consumer group" if group_id in self._groups else "not found"
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
            for group in self._groups.values()
            if (not wanted_states or group.state.lower() in wanted_states) and (not wanted_types or group.group_type in wanted_types)
        ]

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return len(self._groups)
