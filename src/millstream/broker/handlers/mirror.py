"""MirrorAppend (32000, Millstream's own): append batches that a mirror copied from another cluster, offsets kept.

Version 0. Only for topics with the option `mirror.source`, which take records from nowhere else, and only for clients of our own: no client
of Kafka's can come here by accident (`router.admit`). The mirror names the source and the end of the log that it expects. If the log ends
elsewhere nothing is appended and the answer says where it ends (OFFSET_OUT_OF_RANGE): that is how a mirror which another one has replaced
is refused, and how one that begins learns where to go on. Without batches, and with -1 as the expected end, that is all that is asked.

A request with thousands of batches, as of a source whose producers do not wait for company, is appended in pieces, in several turns of the
loop. Its connection is held meanwhile, so requests stay in order. Another mirror may come between two pieces: the rest is refused then.

Answered as Produce with acks=all: when all in-sync replicas have the batches. Producer ids of the batches are never handed out here from
then on (`ProducerIds.skip_to`); with the last request of a mirroring that has happened before it is answered.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

from millstream.broker.failures import as_kafka_error
from millstream.broker.handlers.pending_commit import PendingCommit, Wait, timed_out, why_not_acknowledged
from millstream.broker.network.api import Request, api
from millstream.broker.network.connection import PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.session import Session
from millstream.broker.storage.loop_turns import LoopTurns
from millstream.broker.tasks import Spawn
from millstream.clock import Clock
from millstream.cluster.leader import ACKS_ALL, Leader
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.errors import KafkaError, RecordListTooLarge
from millstream.transactions.producer_ids import HIGHEST_MIRRORED, ProducerIds
from millstream.wire.api import ApiKey
from millstream.wire.batch import HEADER_SIZE, end_of_batches, in_pieces, read_header
from millstream.wire.mirror_append import (
    MirrorAppendRequest,
    PartitionMirrored,
    TopicMirrored,
    decode_request,
    encode_response,
)

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 8 * 1024 * 1024
"""Of all batches in one request, so that others do not wait for it; a single batch may be larger."""
MANY_BATCHES: Final = 1000
"""So many take about four milliseconds; a request with more is appended in several turns."""
ANY_END: Final = -1
"""The expected end of a log whose end is asked for."""


class MirrorFamily:
    """Appends what mirrors copied."""

    def __init__(self, replicas: Replicas, producer_ids: ProducerIds, clock: Clock, *, spawn: Spawn) -> None:
        self._replicas = replicas
        self._producer_ids = producer_ids
        self._clock = clock
        self._spawn = spawn
        self._turns = LoopTurns()
        self._skipping = -1
        """Up to which producer id they are being set aside, or have been."""

    @api(ApiKey.MIRROR_APPEND, 0, 0)
    def mirror_append(self, request: Request) -> Sequence[Chunk] | Coroutine[Any, Any, Sequence[Chunk]] | None:
        """Append the batches of each partition."""
        message = decode_request(request.frame, start=request.body_start)
        if _has_many_batches(message) and not message.is_last:
            self._append_in_turns(request)
            return None
        answer = MirrorAnswer(request.correlation_id)
        for _ in self._appending(request.session, message, answer):
            pass
        if message.is_last:
            return self._end(answer, timeout_s=message.timeout_ms / 1000)
        return self._finish(answer, message.timeout_ms, request.defer)

    def _append_in_turns(self, request: Request) -> None:
        """Append some batches in each of the next turns of the loop, and then answer; the connection handles nothing else until then."""
        connection, pending, frame = request.connection, request.defer(), memoryview(bytes(request.frame))
        message, answer = decode_request(frame, start=request.body_start), MirrorAnswer(request.correlation_id)
        appending = self._appending(request.session, message, answer)
        connection.hold(len(frame))

        def append_some() -> bool:
            if next(appending, answer) is not answer:
                return False
            chunks = self._finish(answer, message.timeout_ms, lambda: pending)
            if chunks is not None:
                pending.complete(chunks)
            connection.release(len(frame))
            return True

        self._turns.share(append_some)

    def _finish(self, answer: "MirrorAnswer", timeout_ms: int, defer: Callable[[], PendingReply]) -> Sequence[Chunk] | None:
        """The answer, unless it has to wait until the batches are committed."""
        highest = answer.highest_producer_id
        if self._skipping < highest <= HIGHEST_MIRRORED:
            self._skipping = highest
            self._spawn(self._skip_ids(highest))
        if not answer.waits:
            return (answer.encode(),)
        PendingCommit(defer(), answer.waits, answer.refuse, answer.encode, acks=ACKS_ALL).start(timeout_ms)
        return None

    def _appending(self, client: Session, message: MirrorAppendRequest, answer: "MirrorAnswer") -> Iterator[None]:
        """Append everything that can be, with a break after each piece."""
        refusal = _why_too_large(message)
        for topic in message.topics:
            answer.topics.append(TopicMirrored(topic.topic_id, []))
            for wanted in topic.partitions:
                partition = None
                expected, pieces = wanted.expected_end_offset, list(in_pieces(wanted.records))
                try:
                    if refusal is not None:
                        raise refusal
                    for piece in pieces:
                        partition = self._replicas.partition_for(client, Operation.MIRROR, topic.topic_id, wanted.partition)
                        leader = partition.as_leader()
                        if expected == ANY_END and not len(wanted.records):
                            expected = leader.log.log_end_offset
                        is_last = message.is_last and piece is pieces[-1]
                        now_ms = self._clock.now_ms()
                        own = leader.append_mirrored(piece, source=topic.source, expected_end=expected, now_ms=now_ms, is_last=is_last)
                        answer.highest_producer_id = max(answer.highest_producer_id, own)
                        expected = leader.log.log_end_offset
                        if piece is pieces[-1]:
                            answer.add(partition, leader, highest_producer_id=own if is_last else -1)
                        yield
                except Exception as error:
                    answer.topics[-1].partitions.append(_refused(wanted.partition, as_kafka_error(error), partition))

    async def _skip_ids(self, highest: int) -> None:
        try:
            await self._producer_ids.skip_to(highest)
            self._skipping = max(self._skipping, self._producer_ids.skipped)
        except KafkaError as error:
            self._skipping = self._producer_ids.skipped
            logger.warning("the ids of mirrored producers: %s; tried again with the next batches", error)

    async def _end(self, answer: "MirrorAnswer", *, timeout_s: float) -> Sequence[Chunk]:
        """The answer to the last request of a mirroring, when its batches are committed and its producer ids set aside."""
        reached: list[Wait] = []
        error: KafkaError | None = None
        are_set_aside = False
        try:
            async with asyncio.timeout(timeout_s):
                await self._producer_ids.skip_to(answer.highest_producer_id)
                are_set_aside = True
                for wait in answer.waits:
                    await wait.watermark.reached(wait.offset)
                    reached.append(wait)
        except TimeoutError:
            error = timed_out()
        except KafkaError as failure:
            error = failure
        for wait in answer.waits:
            reason = why_not_acknowledged(wait.appended_to, ACKS_ALL) if wait in reached else error
            if reason is not None:
                answer.refuse(wait, reason)
        if error is not None and not are_set_aside:
            # Also what is committed: a topic that is promoted now would take records of new producers for repetitions.
            answer.refuse_all(error)
        return (answer.encode(),)


class MirrorAnswer:
    """The answer to a request while it comes together, and what it waits for."""

    def __init__(self, correlation_id: int) -> None:
        self.topics: list[TopicMirrored] = []
        self.waits: list[Wait] = []
        self.highest_producer_id = -1
        self._correlation_id = correlation_id

    def add(self, partition: Partition, leader: Leader, *, highest_producer_id: int) -> None:
        """The batches for the next partition were appended, and have to be committed up to where its log ends now."""
        log, answers = leader.log, self.topics[-1].partitions
        watermark, end = partition.high_watermark, log.log_end_offset
        if watermark.value < end:
            self.waits.append(Wait(watermark, end, partition, leader, len(self.topics) - 1, len(answers)))
        answers.append(PartitionMirrored(partition.index, 0, end, log.log_start_offset, highest_producer_id))

    def refuse(self, wait: Wait, error: KafkaError) -> None:
        """What was appended may not be acknowledged."""
        answers = self.topics[wait.topic].partitions
        answers[wait.partition] = _refused(answers[wait.partition].partition, error, wait.appended_to)

    def refuse_all(self, error: KafkaError) -> None:
        """Nothing may be acknowledged."""
        for topic in self.topics:
            topic.partitions[:] = [
                one if one.error_code else one._replace(error_code=error.code, error_message=str(error)) for one in topic.partitions
            ]

    def encode(self) -> bytes:
        """The bytes of it."""
        return encode_response(self._correlation_id, self.topics)


def _refused(index: int, error: KafkaError, partition: Partition | None) -> PartitionMirrored:
    """The answer where nothing was appended, with the place where the log ends, if this broker leads it."""
    start = end = -1
    if partition is not None and partition.leading is not None:
        start, end = partition.log.log_start_offset, partition.log.log_end_offset
    return PartitionMirrored(index, error.code, end, start, error_message=str(error))


def _why_too_large(message: MirrorAppendRequest) -> RecordListTooLarge | None:
    """Why the request would keep others waiting, if it would."""
    pieces = [wanted.records for topic in message.topics for wanted in topic.partitions if len(wanted.records)]
    size = sum(map(len, pieces))
    is_one_batch = len(pieces) == 1 and size >= HEADER_SIZE and read_header(pieces[0]).size_bytes >= size
    if size <= MAX_BYTES or is_one_batch:
        return None
    return RecordListTooLarge(f"{size} bytes of batches in one MirrorAppend; at most {MAX_BYTES}, or a single batch")


def _has_many_batches(message: MirrorAppendRequest) -> bool:
    left = MANY_BATCHES
    for topic in message.topics:
        for wanted in topic.partitions:
            position = 0
            while position < (end := end_of_batches(wanted.records, position, most=1)):
                position, left = end, left - 1
                if left < 0:
                    return True
    return False
