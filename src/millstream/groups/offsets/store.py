"""The committed offsets of all groups of a shard, and the records that change them.

    group id -> topic -> partition -> CommittedOffset

Every change here is made together with its record: `put` and `remove` return or write it. A topic id that was committed with an offset is
kept, so that a topic which was deleted and made again under the same name does not inherit positions. Whether an offset may be committed,
deleted or expired is decided by the shard and the group. Offsets inside open transactions are not here.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome
from millstream.errors import InvalidCommitOffsetSize, OffsetMetadataTooLarge
from millstream.groups.commands import TopicOffsets
from millstream.groups.offsets.records import (
    NO_EXPIRY,
    NO_LEADER_EPOCH,
    CommittedOffset,
    OffsetKey,
    encode_offset_key,
    encode_offset_value,
    offset_key_prefix,
    topic_id_bytes,
)
from millstream.groups.offsets.repeated_commit import RepeatedCommit
from millstream.groups.topic_image import TopicImage
from millstream.wire.primitives import INT32, ZERO_UUID

TopicPositions = dict[int, CommittedOffset]
GroupPositions = dict[str, TopicPositions]

_MAX_STRING_BYTES = 32_767
"""What a length of 16 bits can say."""
_RECORD_OVERHEAD_BYTES = 20
"""At most what a batch adds to key and value of a record."""
_NOWHERE: Fields = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": "", "error_code": 0}


class OffsetStore:
    """Positions by group, topic and partition."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, GroupPositions] = {}

    def apply(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Replay a record."""
        group_id, topic, partition = key
        if committed is not None:
            self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed
        elif self.get(group_id, topic, partition) is not None:
            self._forget(group_id, topic, partition)

    def commit(
        self, group_id: str, topics: list[TopicOffsets], *, now_ms: int, retention_ms: int | None, metadata_max: int, size_max: int
    ) -> tuple[list[Fields], list[CoordinatorRecord]]:
        """Take all positions that are right; the answer per topic, and the records. Too many bytes for one batch: none is taken."""
        expire_ms = NO_EXPIRY if retention_ms is None else now_ms + retention_ms
        answers: list[Fields] = []
        records: list[CoordinatorRecord] = []
        puts: list[tuple[str, int, CommittedOffset]] = []
        size = 0
        for topic, topic_id, partitions in topics:
            prefix = offset_key_prefix(group_id, topic)
            id_bytes = ZERO_UUID if topic_id is None else topic_id.bytes
            results: list[Fields] = []
            for partition, offset, leader_epoch, metadata in partitions:
                text = metadata or ""
                if text and (len(text) > metadata_max or len(text.encode()) > _MAX_STRING_BYTES):
                    results.append({"partition_index": partition, "error_code": OffsetMetadataTooLarge.code})
                    continue
                if expire_ms == NO_EXPIRY:
                    committed = CommittedOffset(offset, leader_epoch, text, now_ms, NO_EXPIRY, id_bytes)
                else:  # the record of such a commit has neither, so nothing that replay would not know is kept
                    committed = CommittedOffset(offset, NO_LEADER_EPOCH, text, now_ms, expire_ms, ZERO_UUID)
                value = encode_offset_value(committed)
                key = prefix + INT32.pack(partition)
                size += len(key) + len(value) + _RECORD_OVERHEAD_BYTES
                records.append(CoordinatorRecord(key, value))
                puts.append((topic, partition, committed))
                results.append({"partition_index": partition, "error_code": 0})
            answers.append({"name": topic, "topic_id": topic_id, "partitions": results})
        if size > size_max:
            return answer_commit(topics, InvalidCommitOffsetSize.code), []
        positions = self._groups.setdefault(group_id, {}) if puts else {}
        for topic, partition, committed in puts:
            positions.setdefault(topic, {})[partition] = committed
        return answers, records

    def commit_again(self, commit: RepeatedCommit, offsets: tuple[int, ...], leader_epochs: tuple[int, ...], *, now_ms: int) -> None:
        """Take the positions of a commit that was made before with other numbers."""
        positions = self._groups.setdefault(commit.command.group_id, {})
        for topic in commit.topics:
            positions.setdefault(topic.topic, {}).update(topic.committed(offsets, leader_epochs, now_ms=now_ms))

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """One position."""
        positions = self._groups.get(group_id)
        return None if positions is None else positions.get(topic, {}).get(partition)

    def group_ids(self) -> Iterable[str]:
        """The groups that have positions."""
        return self._groups.keys()

    def items(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All positions of a group."""
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def remove(self, group_id: str, topic: str, partition: int, *, outcome: Outcome) -> None:
        """Forget one position, with its tombstone, if there is one."""
        if self.get(group_id, topic, partition) is not None:
            outcome.write(CoordinatorRecord(encode_offset_key(group_id, topic, partition), None))
            self._forget(group_id, topic, partition)

    def remove_topic(self, topic: str, *, unless_id: UUID | None, outcome: Outcome) -> None:
        """Forget all positions in a topic, except those that were committed for the topic of the id `unless_id`."""
        kept = topic_id_bytes(unless_id)
        stale = [
            (group_id, partition)
            for group_id, positions in self._groups.items()
            for partition, committed in positions.get(topic, {}).items()
            if unless_id is None or committed.topic_id != kept
        ]
        for group_id, partition in stale:
            self.remove(group_id, topic, partition, outcome=outcome)

    def remove_other_topics_of_the_same_name(self, image: TopicImage, *, outcome: Outcome) -> None:
        """Forget positions that were committed in a topic which has been deleted and made again since."""
        stale = [
            (group_id, topic, partition)
            for group_id, positions in self._groups.items()
            for topic, partitions in positions.items()
            if topic in image.topics
            for partition, committed in partitions.items()
            if committed.topic_id not in (ZERO_UUID, image.topics[topic].topic_id.bytes)
        ]
        for group_id, topic, partition in stale:
            self.remove(group_id, topic, partition, outcome=outcome)

    def remove_group(self, group_id: str, *, outcome: Outcome) -> None:
        """Forget all positions of a group."""
        for topic, partitions in self._groups.pop(group_id, {}).items():
            prefix = offset_key_prefix(group_id, topic)
            outcome.records += [CoordinatorRecord(prefix + INT32.pack(partition), None) for partition in partitions]

    def fetch(self, group_id: str, topic: str, *, topic_id: UUID | None, partitions: Iterable[int]) -> Fields:
        """Positions in one topic, as OffsetFetch shows them; -1 where there is none."""
        known = self._groups.get(group_id, {}).get(topic, {})
        wanted = topic_id_bytes(topic_id)
        results = []
        for partition in partitions:
            committed = known.get(partition)
            if committed is None or (wanted != ZERO_UUID and committed.topic_id not in (ZERO_UUID, wanted)):
                results.append({"partition_index": partition, **_NOWHERE})
            else:
                results.append(_shown(partition, committed))
        return {"name": topic, "topic_id": topic_id, "partitions": results}

    def fetch_all(self, group_id: str, image: TopicImage) -> list[Fields]:
        """Every position of a group, as OffsetFetch shows them."""
        return [
            {
                "name": topic,
                "topic_id": image.topics[topic].topic_id if topic in image.topics else None,
                "partitions": [_shown(partition, committed) for partition, committed in partitions.items()],
            }
            for topic, partitions in self._groups.get(group_id, {}).items()
        ]

    def _forget(self, group_id: str, topic: str, partition: int) -> None:
        positions = self._groups[group_id]
        del positions[topic][partition]
        if not positions[topic]:
            del positions[topic]
            if not positions:
                del self._groups[group_id]


def answer_commit(topics: list[TopicOffsets], error_code: int) -> list[Fields]:
    """The answer per topic when all partitions fare alike."""
    return [
        {
            "name": topic,
            "topic_id": topic_id,
            "partitions": [{"partition_index": partition[0], "error_code": error_code} for partition in partitions],
        }
        for topic, topic_id, partitions in topics
    ]


def _shown(partition: int, committed: CommittedOffset) -> Fields:
    return {
        "partition_index": partition,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": 0,
    }
