"""The committed offsets of all groups of a shard, and the records that change them.

    group id -> topic -> partition -> CommittedOffset

Every change here is made together with its record, but for offsets that are committed in a transaction: they are pending when their record
is in the log (`apply_pending`), and real when the marker is (`end_transaction`). A topic id that was committed with an offset is kept, so
that a topic which was deleted and made again under the same name does not inherit positions. Whether an offset may be committed, deleted
or expired is decided by the shard and the group.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome
from millstream.errors import InvalidCommitOffsetSize, OffsetMetadataTooLarge, UnstableOffsetCommit
from millstream.groups.commands import TopicOffsets
from millstream.groups.offsets.pending import PendingOffsets
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
_UNSTABLE: Fields = {**_NOWHERE, "error_code": UnstableOffsetCommit.code}


class OffsetStore:
    """Positions by group, topic and partition."""

    __slots__ = ("_groups", "_pending")

    def __init__(self) -> None:
        self._groups: dict[str, GroupPositions] = {}
        self._pending = PendingOffsets()

    def apply(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Replay a record."""
        group_id, topic, partition = key
        if committed is not None:
            self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed
            if self._pending.producers:
                self._pending.outdate(key)
        else:
            self._forget(key)

    def apply_pending(self, producer_id: int, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Take a record that stands in the log in a producer's transaction. A tombstone does not wait for the end, as in Kafka."""
        if committed is None:
            self._forget(key)
        else:
            self._pending.add(producer_id, key, committed)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker stands in the log: what the producer had pending is real, unless there is a later commit, or dropped."""
        for key, (order, committed, is_outdated) in self._pending.end(producer_id):
            if is_commit and not is_outdated:
                group_id, topic, partition = key
                self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed
                self._pending.outdate(key, before=order)

    def commit(
        self,
        group_id: str,
        topics: list[TopicOffsets],
        *,
        now_ms: int,
        retention_ms: int | None,
        metadata_max: int,
        size_max: int,
        is_pending: bool = False,
    ) -> tuple[list[Fields], list[CoordinatorRecord]]:
        """Take all positions that are right; the answer per topic, and the records. Too many bytes for one batch: none is taken.

        `is_pending`: they are committed in a transaction, and taken when their records are in the log.
        """
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
        if not is_pending:
            positions = self._groups.setdefault(group_id, {}) if puts else {}
            for topic, partition, committed in puts:
                positions.setdefault(topic, {})[partition] = committed
            if self._pending.producers:
                for topic, partition, _ in puts:
                    self._pending.outdate(OffsetKey(group_id, topic, partition))
        return answers, records

    def commit_again(self, commit: RepeatedCommit, offsets: tuple[int, ...], leader_epochs: tuple[int, ...], *, now_ms: int) -> None:
        """Take the positions of a commit that was made before with other numbers."""
        group_id = commit.command.group_id
        positions = self._groups.setdefault(group_id, {})
        for topic in commit.topics:
            positions.setdefault(topic.topic, {}).update(topic.committed(offsets, leader_epochs, now_ms=now_ms))
        if self._pending.producers:
            for topic in commit.topics:
                for partition in topic.partitions:
                    self._pending.outdate(OffsetKey(group_id, topic.topic, partition))

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """One position."""
        positions = self._groups.get(group_id)
        return None if positions is None else positions.get(topic, {}).get(partition)

    def group_ids(self) -> Iterable[str]:
        """The groups that have positions, real or pending."""
        return self._groups.keys() | self._pending.group_ids()

    def items(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All positions of a group."""
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed a position there."""
        return partition in self._pending.partitions(group_id, topic)

    def is_group_pending(self, group_id: str) -> bool:
        """Whether an open transaction has committed a position of the group."""
        return self._pending.has_group(group_id)

    def remove(self, group_id: str, topic: str, partition: int, *, outcome: Outcome) -> None:
        """Forget one position, with its tombstone, if there is one; what is pending there goes with it."""
        if self.get(group_id, topic, partition) is not None or self.is_pending(group_id, topic, partition):
            outcome.write(CoordinatorRecord(encode_offset_key(group_id, topic, partition), None))
            self._forget(OffsetKey(group_id, topic, partition))

    def remove_topic(self, topic: str, *, unless_id: UUID | None, outcome: Outcome) -> None:
        """Forget all positions in a topic, except those that were committed for the topic of the id `unless_id`."""
        kept = topic_id_bytes(unless_id)
        stale = [
            (group_id, partition)
            for group_id, positions in self._groups.items()
            for partition, committed in positions.get(topic, {}).items()
            if unless_id is None or committed.topic_id != kept
        ]
        stale += [
            (key.group_id, key.partition)
            for key, committed in self._only_pending()
            if key.topic == topic and (unless_id is None or committed.topic_id != kept)
        ]
        for group_id, partition in stale:
            self.remove(group_id, topic, partition, outcome=outcome)

    def remove_other_topics_of_the_same_name(self, image: TopicImage, *, outcome: Outcome) -> None:
        """Forget positions that were committed in a topic which has been deleted and made again since."""
        stale = [
            OffsetKey(group_id, topic, partition)
            for group_id, positions in self._groups.items()
            for topic, partitions in positions.items()
            if topic in image.topics
            for partition, committed in partitions.items()
            if committed.topic_id not in (ZERO_UUID, image.topics[topic].topic_id.bytes)
        ]
        stale += [
            key
            for key, committed in self._only_pending()
            if key.topic in image.topics and committed.topic_id not in (ZERO_UUID, image.topics[key.topic].topic_id.bytes)
        ]
        for group_id, topic, partition in stale:
            self.remove(group_id, topic, partition, outcome=outcome)

    def remove_group(self, group_id: str, *, outcome: Outcome) -> None:
        """Forget all positions of a group."""
        for topic, partitions in self._groups.pop(group_id, {}).items():
            prefix = offset_key_prefix(group_id, topic)
            outcome.records += [CoordinatorRecord(prefix + INT32.pack(partition), None) for partition in partitions]
            for partition in partitions:
                self._pending.drop(OffsetKey(group_id, topic, partition))
        for topic, partition in self._pending.places(group_id):
            self.remove(group_id, topic, partition, outcome=outcome)

    def _only_pending(self) -> list[tuple[OffsetKey, CommittedOffset]]:
        """What is pending where nothing is committed yet: where something is, that decides whether the place is stale."""
        return [(key, committed) for key, committed in self._pending.items() if self.get(*key) is None]

    def fetch(
        self, group_id: str, topic: str, *, topic_id: UUID | None, partitions: Iterable[int], is_stable_required: bool = False
    ) -> Fields:
        """Positions in one topic, as OffsetFetch shows them; -1 where there is none, or where one is pending and that is not wanted."""
        known = self._groups.get(group_id, {}).get(topic, {})
        wanted = topic_id_bytes(topic_id)
        unstable = self._pending.partitions(group_id, topic) if is_stable_required else ()
        results = []
        for partition in partitions:
            committed = known.get(partition)
            if partition in unstable:
                results.append({"partition_index": partition, **_UNSTABLE})
            elif committed is None or (wanted != ZERO_UUID and committed.topic_id not in (ZERO_UUID, wanted)):
                results.append({"partition_index": partition, **_NOWHERE})
            else:
                results.append(_shown(partition, committed))
        return {"name": topic, "topic_id": topic_id, "partitions": results}

    def fetch_all(self, group_id: str, image: TopicImage, *, is_stable_required: bool = False) -> list[Fields]:
        """Every position of a group, as OffsetFetch shows them; what is only pending is none."""
        found: list[Fields] = []
        for topic, partitions in self._groups.get(group_id, {}).items():
            unstable = self._pending.partitions(group_id, topic) if is_stable_required else ()
            results = [
                {"partition_index": partition, **_UNSTABLE} if partition in unstable else _shown(partition, committed)
                for partition, committed in partitions.items()
            ]
            info = image.topics.get(topic)
            found.append({"name": topic, "topic_id": None if info is None else info.topic_id, "partitions": results})
        return found

    def _forget(self, key: OffsetKey) -> None:
        """Forget what is committed, and what is pending, in one place."""
        self._pending.drop(key)
        group_id, topic, partition = key
        if self.get(group_id, topic, partition) is None:
            return
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
