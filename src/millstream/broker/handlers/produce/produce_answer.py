"""The answer to a Produce request while it comes together: what is known of it, and what it waits for.

It may have to wait for batches that take longer (`late_appends`), then for the high watermark (acks=all), or for
the disk where a flush is due (`pending_commit`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from millstream.broker.failures import as_kafka_error, is_unexpected
from millstream.broker.handlers.groups.pending_commit import PendingCommit, Wait
from millstream.broker.handlers.leader_hints import LeaderHints
from millstream.broker.network.connection import Connection, PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.request_times import PRODUCE
from millstream.broker.network.session import Session
from millstream.broker.storage.record_turns import TakesLonger
from millstream.cluster.partition import Partition
from millstream.cluster.watermark import Watermark
from millstream.errors import (
    CorruptMessage,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    StorageError,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionType,
)
from millstream.log.log import AppendResult
from millstream.log.producer_state import TransactionalWrites
from millstream.log.records.record_check import MAX_NAMED
from millstream.transaction_errors import Unverified
from millstream.wire.primitives import NodeEndpoint
from millstream.wire.produce import (
    FIRST_WITH_LEADER,
    FIRST_WITH_RECORD_ERRORS,
    PartitionProduced,
    ProduceTopic,
    TopicProduced,
    encode_response,
)

NO_ACKS: Final = 0
_WITHOUT_LOG_START: Final = (
    CorruptMessage,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    StorageError,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionType,
)

Appended = tuple[AppendResult | Exception, Partition | None, Watermark | None]
"""The place of a batch, or why it has none; its partition, if that is known; and what the answer has to wait for, if anything."""


class Asked(NamedTuple):
    """What a request says beside its batches."""

    version: int
    correlation_id: int
    acks: int
    timeout_ms: int
    client: Session
    transactional_id: str | None = None


class Late(NamedTuple):
    """A batch that is appended later: when its records were looked into, or the coordinator has confirmed the transaction that it begins.

    One that is refused comes here, too, if it has to be found out which of its records are to blame.
    """

    topic: int
    partition: int
    batch: bytes
    refusal: KafkaError | None = None


@dataclass(slots=True)
class Answering:
    """The answer to a request as far as it is known, and what it still waits for."""

    hints: LeaderHints
    topics: list[TopicProduced] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    _named: int = 0
    """How many bad records the answer names."""

    def add(self, asked: Asked, topic: ProduceTopic, appended: Iterable[Appended]) -> None:
        """Note what came of the batches for a topic."""
        answers: list[PartitionProduced] = []
        for (index, batch), (result, partition, watermark) in zip(topic.partitions, appended, strict=True):
            place = len(self.topics), len(answers)
            if isinstance(result, AppendResult):
                answers.append(self.placed(index, result, partition, watermark, place=place))
            elif batch is not None and _is_late(result, asked.version):
                self.late.append(Late(*place, bytes(batch), result if isinstance(result, InvalidTimestamp) else None))
                answers.append(PartitionProduced(index))
            else:
                answers.append(self.refused(index, as_kafka_error(result), partition))
        self.topics.append(TopicProduced(topic.name, topic.topic_id, answers))

    def placed(
        self, index: int, result: AppendResult, partition: Partition | None, watermark: Watermark | None, *, place: tuple[int, int]
    ) -> PartitionProduced:
        """The answer for a batch that was appended; what it has to wait for is noted for its place, the numbers of topic and partition."""
        if watermark is not None and watermark.value <= result.last_offset:
            assert partition is not None
            self.waits.append(Wait(watermark, result.last_offset + 1, partition, partition.leading, *place))
        return PartitionProduced(index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset)

    def refused(self, index: int, error: KafkaError, partition: Partition | None = None) -> PartitionProduced:
        """The answer for one of many batches: a request of a few bytes may have many millions of bad records, which are not all named."""
        if partition is not None and is_unexpected(error):
            partition.failed_produces += 1
        answer = refused(index, error, partition)
        self._named += len(answer.record_errors)
        return answer if self._named <= MAX_NAMED else answer._replace(record_errors=())

    def not_committed(self, wait: Wait, error: KafkaError) -> None:
        """What was to be answered for a batch is not: it may not be acknowledged."""
        answers = self.topics[wait.topic].partitions
        assert isinstance(answers, list)
        answers[wait.partition] = refused(answers[wait.partition].partition, error)


def transactional_writes(asked: Asked) -> TransactionalWrites:
    """Which transactional batches a request may append without asking the coordinator."""
    return TransactionalWrites.REFUSED if asked.transactional_id is None else TransactionalWrites.CONTINUED


def _is_late(error: Exception, version: int) -> bool:
    """Whether this is not the end of it: there was no time, a transaction begins, or it is not known yet which records are to blame."""
    is_unnamed = isinstance(error, InvalidTimestamp) and not error.record_errors
    return isinstance(error, (TakesLonger, Unverified)) or (is_unnamed and version >= FIRST_WITH_RECORD_ERRORS)


def refused(index: int, error: KafkaError, partition: Partition | None = None) -> PartitionProduced:
    """The answer for a batch that was not appended, with the records that are to blame where they are known (KIP-467).

    As in Kafka the log start is given unless the partition is in the way, or what can be seen without it: the size, CRC or codec.
    """
    start = -1 if partition is None or error.is_of_request or isinstance(error, _WITHOUT_LOG_START) else partition.log.log_start_offset
    return PartitionProduced(index, error.code, log_start_offset=start, record_errors=error.record_errors, error_message=str(error))


def finished(connection: Connection, asked: Asked, answering: Answering, pending: PendingReply | None = None) -> Sequence[Chunk] | None:
    """The answer when nothing is late any more, if there is one and it need not wait; if it has to, in the place that is kept for it."""
    if asked.acks == NO_ACKS:
        _close_on_error(connection, answering.topics)
    elif answering.waits:
        encode = partial(encode_answer, asked, answering.topics, answering.hints)
        pending = pending or connection.defer(PRODUCE)
        PendingCommit(pending, answering.waits, answering.not_committed, encode, acks=asked.acks).start(asked.timeout_ms)
    else:
        return (encode_answer(asked, answering.topics, answering.hints),)
    return None


def encode_answer(asked: Asked, topics: Sequence[TopicProduced], hints: LeaderHints) -> bytes:
    """The answer, with the leaders of partitions that are led elsewhere (KIP-951)."""
    endpoints: list[NodeEndpoint] = []
    is_elsewhere = any(answer.error_code == NotLeaderOrFollower.code for topic in topics for answer in topic.partitions)
    if is_elsewhere and asked.version >= FIRST_WITH_LEADER:
        topics = [topic._replace(partitions=[_with_leader(topic, answer, hints) for answer in topic.partitions]) for topic in topics]
        endpoints = hints.endpoints(answer.leader[0] for topic in topics for answer in topic.partitions if answer.leader is not None)
    return encode_response(asked.version, asked.correlation_id, topics=topics, node_endpoints=endpoints)


def _with_leader(topic: TopicProduced, answer: PartitionProduced, hints: LeaderHints) -> PartitionProduced:
    if answer.error_code != NotLeaderOrFollower.code:
        return answer
    return answer._replace(leader=hints.leader_of(topic.topic_id if topic.name is None else topic.name, answer.partition))


def _close_on_error(connection: Connection, topics: Sequence[TopicProduced]) -> None:
    """Close the connection of a producer that asked for no answer: it learns of an error in no other way."""
    for topic in topics:
        for answer in topic.partitions:
            if answer.error_code:
                connection.close(f"a produce with acks=0 failed, and closing is the only way to say so: {answer.error_message}")
                return
