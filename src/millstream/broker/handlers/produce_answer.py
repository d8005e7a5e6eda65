"""The answer to a Produce request while it comes together: what is known of it, and what it waits for.

It may have to wait for batches whose records take longer to look into (`late_appends`), then for the high watermark (acks=all), or for
the disk where a flush is due. Nothing runs while it waits for a watermark: it is called by it, or by a timer when the client's time is up.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from millstream.broker.failures import as_kafka_error
from millstream.broker.handlers.leader_hints import LeaderHints
from millstream.broker.network.connection import Connection, PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.session import Session
from millstream.broker.storage.record_turns import TakesLonger
from millstream.cluster.leader import ACKS_ALL, Leader
from millstream.cluster.partition import Partition
from millstream.cluster.watermark import Watermark
from millstream.errors import (
    CorruptMessage,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionType,
)
from millstream.log.log import AppendResult
from millstream.log.records.record_check import MAX_NAMED
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


class Wait(NamedTuple):
    """A batch that may not be acknowledged before a watermark has reached an offset, and its place in the answer."""

    watermark: Watermark
    offset: int
    appended_to: Partition
    appended_by: Leader | None
    """The role in which it was appended: in another one the watermark says nothing of this batch."""
    topic: int
    partition: int


class Late(NamedTuple):
    """A batch whose records have to be looked into before it is appended; or only to say which of them are to blame, if it is refused."""

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
                self.late.append(Late(*place, bytes(batch), result if isinstance(result, KafkaError) else None))
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
        answer = refused(index, error, partition)
        self._named += len(answer.record_errors)
        return answer if self._named <= MAX_NAMED else answer._replace(record_errors=())


def _is_late(error: Exception, version: int) -> bool:
    """Whether this is not the end of it: there was no time, or it is not known yet which records are to blame."""
    is_unnamed = isinstance(error, InvalidTimestamp) and not error.record_errors
    return isinstance(error, TakesLonger) or (is_unnamed and version >= FIRST_WITH_RECORD_ERRORS)


def refused(index: int, error: KafkaError, partition: Partition | None = None) -> PartitionProduced:
    """The answer for a batch that was not appended, with the records that are to blame where they are known (KIP-467).

    As in Kafka the log start is given unless the partition is in the way, or what can be seen without it: the size, CRC or codec.
    """
    start = -1 if partition is None or error.is_of_request or isinstance(error, _WITHOUT_LOG_START) else partition.log.log_start_offset
    return PartitionProduced(index, error.code, log_start_offset=start, record_errors=error.record_errors, error_message=str(error))


def timed_out() -> RequestTimedOut:
    """The client's time is up."""
    return RequestTimedOut("the batch was appended, but not committed within the timeout of the request")


def finished(connection: Connection, asked: Asked, answering: Answering, place: Callable[[], PendingReply]) -> Sequence[Chunk] | None:
    """The answer when nothing is late any more, if there is one and it need not wait; if it has to, in the place that is kept for it."""
    if asked.acks == NO_ACKS:
        _close_on_error(connection, answering.topics)
    elif answering.waits:
        PendingProduce(place(), asked, answering).start()
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


def why_not_acknowledged(partition: Partition, acks: int) -> KafkaError | None:
    """What became of a batch while it waited to be committed: too few replicas may be left in sync."""
    if acks == ACKS_ALL and partition.leading is not None:
        try:
            partition.leading.check_still_enough()
        except NotEnoughReplicasAfterAppend as error:
            return error
    return None


def _close_on_error(connection: Connection, topics: Sequence[TopicProduced]) -> None:
    """Close the connection of a producer that asked for no answer: it learns of an error in no other way."""
    for topic in topics:
        for answer in topic.partitions:
            if answer.error_code:
                connection.close(f"a produce with acks=0 failed, and closing is the only way to say so: {answer.error_message}")
                return


class PendingProduce:
    """An answer that waits until its batches are committed (acks=all) or on disk (a flush is due), or the client's time is up."""

    __slots__ = ("_asked", "_hints", "_pending", "_remaining", "_timer", "_topics")

    def __init__(self, pending: PendingReply, asked: Asked, answering: Answering) -> None:
        self._pending = pending
        self._asked = asked
        self._topics = answering.topics
        self._hints = answering.hints
        self._remaining = dict(enumerate(answering.waits))
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to wait."""
        self._timer = asyncio.get_running_loop().call_later(max(self._asked.timeout_ms, 0) / 1000, self._time_is_up)
        self._pending.on_abandon = self._abandoned
        for number, wait in list(self._remaining.items()):
            if wait.appended_to.leading is wait.appended_by:
                wait.watermark.wait_for(wait.offset, partial(self._reached, number), token=(self, number))
            else:
                # Another batch of the request was late, and nothing waited meanwhile that could have heard of it.
                self._reached(number, NotLeaderOrFollower("the batch was appended, and the leader changed before it was committed"))

    def _reached(self, number: int, error: KafkaError | None) -> None:
        wait = self._remaining.pop(number)
        error = error or why_not_acknowledged(wait.appended_to, self._asked.acks)
        if error is not None:
            self._refuse(wait, error)
        if not self._remaining:
            self._finish()

    def _time_is_up(self) -> None:
        for wait in self._stop_waiting():
            self._refuse(wait, timed_out())
        self._finish()

    def _abandoned(self) -> None:
        self._stop_waiting()

    def _stop_waiting(self) -> list[Wait]:
        remaining, self._remaining = self._remaining, {}
        for number, wait in remaining.items():
            wait.watermark.cancel((self, number))
        if self._timer is not None:
            self._timer.cancel()
        return list(remaining.values())

    def _refuse(self, wait: Wait, error: KafkaError) -> None:
        answers = self._topics[wait.topic].partitions
        assert isinstance(answers, list)
        answers[wait.partition] = refused(answers[wait.partition].partition, error)

    def _finish(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._pending.complete((encode_answer(self._asked, self._topics, self._hints),))
