"""OffsetCommit (8), OffsetFetch (9), TxnOffsetCommit (28), OffsetDelete (47): how far groups have read.

OffsetCommit 2-10. 2-4: a retention of their own. 6: leader epoch (KIP-320). 7: static members (KIP-345). 8: flexible. 9: member epochs of
KIP-848. 10: topics by id (KIP-848). A commit waits, without a task, until it is committed itself.
OffsetFetch 1-10. 2: all topics of a group (null), a top-level error. 5: leader epoch. 6: flexible. 7: require stable offsets (KIP-447):
where one is pending in a transaction, UNSTABLE_OFFSET_COMMIT. 8: several groups (KIP-709). 9: member epochs. 10: topics by id.
TxnOffsetCommit 0-5. 2: leader epoch. 3: generation and member (KIP-447), flexible. 4: TRANSACTION_ABORTABLE is understood, 5: the partition
of the group need not be added to the transaction before (KIP-890). OffsetDelete 0 (KIP-496).

Partitions that do not exist are answered here, and the group is asked about the others; positions that were committed are shown whatever
became of their topic, unless it is asked for by an id that no topic has. Where positions are deleted, a missing group comes first.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast
from uuid import UUID

from millstream.broker.coordinators.commit_lane import CommitLanes
from millstream.broker.coordinators.context import Answerable
from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.coordinators.offset_transactions import OffsetTransactions, Transaction
from millstream.broker.coordinators.reply import CoordinatorReply, GatheredReply, Refusal, Shape, refuse_nothing
from millstream.broker.network.api import Fields, Request, api
from millstream.broker.network.outbox import Chunk
from millstream.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    KafkaError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from millstream.groups.commands import CommitOffsets, CommitPendingOffsets, DeleteOffsets, PartitionOffset, TopicOffsets
from millstream.groups.offsets.store import answer_commit
from millstream.groups.shard import GroupCoordinatorShard
from millstream.groups.topic_image import TopicImage
from millstream.wire.api import ApiKey
from millstream.wire.offset_commit import NO_RETENTION, TopicToCommit, decode_request, encode_response

if TYPE_CHECKING:
    from millstream.wire.requests.offset_delete import OffsetDeleteRequest
    from millstream.wire.requests.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )
    from millstream.wire.requests.txn_offset_commit import TxnOffsetCommitRequest

_FIRST_WITH_MEMBER_EPOCH = 9
_FIRST_WITH_LOADING = 2
_FIRST_FETCH_WITH_ERROR = 2
_FIRST_FETCH_OF_SEVERAL = 8
_FIRST_FETCH_BY_ID = 10

AskedTopic = tuple[str, UUID | None, tuple[int, ...]]


class GroupOffsetsFamily:
    """Remembers positions."""

    def __init__(self, groups: GroupCoordinator, transactions: OffsetTransactions) -> None:
        self._groups = groups
        self._transactions = transactions
        self._commit_lanes = CommitLanes(groups)

    @api(ApiKey.OFFSET_COMMIT, 2, 10)
    def offset_commit(self, request: Request) -> Sequence[Chunk] | None:
        """Commit positions; each partition has its own error."""
        version = request.api_version
        message = decode_request(request.frame, version, start=request.body_start)
        topics, unknown = _known_topics(message.topics, self._groups.image)
        if unknown and not topics:
            return (_encode_commit(request, {"topics": unknown}),)
        command = CommitOffsets(
            group_id=message.group_id,
            member_id=message.member_id,
            generation_or_member_epoch=message.generation_or_member_epoch,
            topics=topics,
            instance_id=message.instance_id,
            retention_ms=None if message.retention_ms == NO_RETENTION else message.retention_ms,
            understands_stale_epoch=version >= _FIRST_WITH_MEMBER_EPOCH,
        )
        shape = _with_unknown(unknown) if unknown else None
        chunks = self._groups.submit(
            command, request, refuse=lambda error: {"topics": answer_commit(topics, error.code)}, shape=shape, encode=_encode_commit
        )
        self._commit_lanes.commit_answered(request, message, command, chunks)
        return chunks

    @api(ApiKey.TXN_OFFSET_COMMIT, 0, 5)
    def txn_offset_commit(self, request: Request) -> Sequence[Chunk] | None:
        """Commit positions in a producer's transaction; each partition has its own error."""
        message: TxnOffsetCommitRequest = request.decode()
        version = request.api_version
        asked = [TopicToCommit(topic.name, None, list(topic.partitions)) for topic in message.topics]
        topics, unknown = _known_topics(asked, self._groups.image)
        if not topics:
            return (request.encode({"topics": unknown}),)
        command = CommitPendingOffsets(message.group_id, message.member_id, message.generation_id, topics, message.group_instance_id)
        reply = CoordinatorReply(
            request, lambda error: {"topics": answer_commit(topics, _known_to(version, error))}, shape=_with_unknown(unknown)
        )
        if not message.group_id:
            reply.fail(InvalidGroupId("the group id is empty"))
        else:
            transaction = Transaction(message.transactional_id, message.producer_id, message.producer_epoch)
            self._transactions.commit(command, transaction, reply, version=version)
        return reply.result()

    @api(ApiKey.OFFSET_FETCH, 1, 10)
    def offset_fetch(self, request: Request) -> Sequence[Chunk] | None:
        """The positions of one group or of several."""
        message: OffsetFetchRequest = request.decode()
        version = request.api_version
        if version < _FIRST_FETCH_OF_SEVERAL:
            reply = CoordinatorReply(request, _refuse_old_fetch(message, version))
            self._fetch(message.group_id, _topics_by_name(message.topics), reply, is_stable_required=message.require_stable)
            return reply.result()
        reply = CoordinatorReply(request, refuse_nothing)
        # What is asked for repeatedly is answered once: a small request is not to keep the broker busy for minutes.
        wanted = {(group.group_id, group.topics): group for group in message.groups}.values()
        gathered = GatheredReply(reply, len(wanted), lambda groups: {"groups": groups})
        for number, group in enumerate(wanted):
            if version >= _FIRST_FETCH_BY_ID:
                topics, unknown = _topics_by_id(group.topics, self._groups.image)
            else:
                topics, unknown = _topics_by_name(group.topics), None
            part = gathered.part(number, _refuse_fetch_of(group.group_id))
            self._fetch(
                group.group_id,
                topics,
                part,
                unknown=unknown,
                member=(group.member_id, group.member_epoch),
                is_stable_required=message.require_stable,
            )
        return reply.result()

    def _fetch(
        self,
        group_id: str,
        topics: list[AskedTopic] | None,
        reply: Answerable,
        *,
        unknown: list[Fields] | None = None,
        member: tuple[str | None, int] = (None, -1),
        is_stable_required: bool,
    ) -> None:
        """Ask the group for its positions; `unknown` are the answers for ids of no topic, if it is asked by id."""

        def question(shard: GroupCoordinatorShard) -> Fields:
            fields = shard.fetch_offsets(
                group_id, topics, member_id=member[0], member_epoch=member[1], is_stable_required=is_stable_required
            )
            if unknown is None or fields["error_code"]:
                return fields
            # A topic that is gone has no id any more to be called by.
            found = [topic for topic in cast("list[Fields]", fields["topics"]) if topic["topic_id"] is not None]
            return {**fields, "topics": [*found, *unknown]}

        self._groups.runtime.read(group_id, question, reply)

    @api(ApiKey.OFFSET_DELETE, 0, 0)
    def offset_delete(self, request: Request) -> Sequence[Chunk] | None:
        """Forget positions in topics that the group does not read."""
        message: OffsetDeleteRequest = request.decode()
        if not message.group_id:
            return (request.encode({"error_code": InvalidGroupId.code, "topics": []}),)
        image = self._groups.image
        known: list[tuple[str, tuple[int, ...]]] = []
        unknown: list[Fields] = []
        for topic in message.topics:
            info = image.topics.get(topic.name)
            count = 0 if info is None else info.partition_count
            indexes = [one.partition_index for one in topic.partitions]
            there = tuple(index for index in indexes if 0 <= index < count)
            if there:
                known.append((topic.name, there))
            missing = [index for index in indexes if not 0 <= index < count]
            if missing:
                unknown.append({"name": topic.name, "partitions": _partition_errors(missing, UnknownTopicOrPartition.code)})
        command = DeleteOffsets(group_id=message.group_id, topics=tuple(known))
        shape = _with_unknown(unknown) if unknown else None
        return self._groups.submit(command, request, refuse=lambda error: {"error_code": error.code, "topics": []}, shape=shape)


def _known_topics(asked: list[TopicToCommit], image: TopicImage) -> tuple[list[TopicOffsets], list[Fields]]:
    """What can be committed, and the answers for what cannot because it does not exist."""
    topics: list[TopicOffsets] = []
    unknown: dict[tuple[str | None, UUID | None], list[Fields]] = {}  # a topic that is named twice is answered once, as in Kafka
    for name, topic_id, partitions in asked:
        found = name if name is not None or topic_id is None else image.names.get(topic_id)
        info = None if found is None else image.topics.get(found)
        if info is None or found is None:
            error_code = UnknownTopicId.code if name is None else UnknownTopicOrPartition.code
            unknown.setdefault((name, topic_id), []).extend(_partition_errors([one[0] for one in partitions], error_code))
            continue
        count = info.partition_count
        offsets = [PartitionOffset(*one) for one in partitions if 0 <= one[0] < count]
        if offsets:
            topics.append(TopicOffsets(found, info.topic_id, offsets))
        if len(offsets) < len(partitions):
            missing = [one[0] for one in partitions if not 0 <= one[0] < count]
            unknown.setdefault((found, info.topic_id), []).extend(_partition_errors(missing, UnknownTopicOrPartition.code))
    return topics, [{"name": name, "topic_id": topic_id, "partitions": errors} for (name, topic_id), errors in unknown.items()]


def _known_to(version: int, error: KafkaError) -> int:
    """The error code of a TxnOffsetCommit: old producers give up when a coordinator is being loaded (KAFKA-7296)."""
    is_too_new = version < _FIRST_WITH_LOADING and isinstance(error, CoordinatorLoadInProgress)
    return CoordinatorNotAvailable.code if is_too_new else error.code


def _encode_commit(request: Request, fields: Fields) -> bytes:
    return encode_response(request.api_version, request.correlation_id, topics=cast("list[Fields]", fields["topics"]))


def _with_unknown(unknown: list[Fields]) -> Shape:
    """Adds the errors of what does not exist to the answer of the coordinator, unless that is an error as a whole."""

    def add(fields: Fields) -> Fields:
        if fields.get("error_code"):
            return fields
        found = cast("list[dict[str, object]]", fields["topics"])
        topics = {topic["name"]: topic for topic in found}
        others: list[Fields] = []
        for missing in unknown:
            present = topics.get(missing.get("name"))
            if present is None:
                others.append(missing)
            else:
                present["partitions"] = [*_partitions(present), *_partitions(missing)]
        return {**fields, "topics": [*found, *others]}

    return add


def _partitions(topic: Fields) -> list[Fields]:
    return cast("list[Fields]", topic["partitions"])


def _partition_errors(indexes: list[int], error_code: int) -> list[Fields]:
    return [{"partition_index": index, "error_code": error_code} for index in indexes]


def _topics_by_name(asked: "Iterable[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None") -> list[AskedTopic] | None:
    return None if asked is None else [(topic.name, None, topic.partition_indexes) for topic in asked]


def _topics_by_id(asked: "Iterable[OffsetFetchRequestTopics] | None", image: TopicImage) -> tuple[list[AskedTopic] | None, list[Fields]]:
    if asked is None:
        return None, []
    known: list[AskedTopic] = []
    unknown: list[Fields] = []
    for topic in asked:
        name = None if topic.topic_id is None else image.names.get(topic.topic_id)
        if name is not None:
            known.append((name, topic.topic_id, topic.partition_indexes))
        else:
            unknown.append({"topic_id": topic.topic_id, "partitions": _no_positions(topic.partition_indexes, UnknownTopicId.code)})
    return known, unknown


def _no_positions(indexes: tuple[int, ...], error_code: int) -> list[Fields]:
    nothing = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": "", "error_code": error_code}
    return [{"partition_index": index, **nothing} for index in indexes]


def _refuse_fetch_of(group_id: str) -> Refusal:
    return lambda error: {"group_id": group_id, "error_code": error.code, "topics": []}


def _refuse_old_fetch(message: "OffsetFetchRequest", version: int) -> Refusal:
    """Version 1 has no error of its own: every partition carries it."""
    if version >= _FIRST_FETCH_WITH_ERROR:
        return lambda error: {"error_code": error.code, "topics": []}
    return lambda error: {
        "topics": [{"name": topic.name, "partitions": _no_positions(topic.partition_indexes, error.code)} for topic in message.topics or ()]
    }
