"""MirrorAppend (32000, Millstream's own): append batches that a mirror copied from another cluster, offsets kept.

Version 0. Only for topics with the option `mirror.source`, which take records from nowhere else, and only for clients of our own: no client
of Kafka's can come here by accident (`router.admit`). The mirror names the source and the end of the log that it expects. If the log ends
elsewhere nothing is appended and the answer says where it ends (OFFSET_OUT_OF_RANGE): that is how a mirror which another one has replaced
is refused, and how one that begins learns where to go on. Without batches, and with -1 as the expected end, that is all that is asked.

Answered as Produce with acks=all: when all in-sync replicas have the batches. Producer ids of the batches are never handed out here from
then on (`ProducerIds.skip_to`); with the last request of a mirroring that has happened before it is answered.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from millstream.broker.failures import as_kafka_error
from millstream.broker.handlers.groups.pending_commit import PendingCommit, Wait, timed_out
from millstream.broker.network.api import Request, api
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.session import Session
from millstream.broker.tasks import Spawn
from millstream.clock import Clock
from millstream.cluster.leader import ACKS_ALL, Leader
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.errors import KafkaError, RecordListTooLarge
from millstream.transactions.producer_ids import HIGHEST_MIRRORED, ProducerIds
from millstream.wire.api import ApiKey
from millstream.wire.batch import HEADER_SIZE, end_of_batches, read_header
from millstream.wire.mirror_append import (
    MirrorAppendRequest,
    MirrorPartition,
    PartitionMirrored,
    TopicMirrored,
    decode_request,
    encode_response,
)

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of all batches in one request, so that others do not wait for it; a single batch may be larger."""
MAX_BATCHES: Final = 1000
"""In one request, for the same reason: about four milliseconds, since the numbers of each header are looked at."""
ANY_END: Final = -1
"""The expected end of a log whose end is asked for."""


class MirrorFamily:
    """Appends what mirrors copied."""

    def __init__(self, replicas: Replicas, producer_ids: ProducerIds, clock: Clock, *, spawn: Spawn) -> None:
        self._replicas = replicas
        self._producer_ids = producer_ids
        self._clock = clock
        self._spawn = spawn
        self._skipping = -1
        """Up to which producer id they are being set aside, or have been."""
        self._owed = -1
        """Up to which producer id they were not set aside when a mirroring ended: its log does not know them any more."""

    @api(ApiKey.MIRROR_APPEND, 0, 0)
    def mirror_append(self, request: Request) -> Sequence[Chunk] | Coroutine[Any, Any, Sequence[Chunk]] | None:
        """Append the batches of each partition."""
        message = decode_request(request.frame, start=request.body_start)
        answer = MirrorAnswer(request.correlation_id)
        highest = self._append_all(request.session, message, answer)
        if message.is_last:
            return self._end(answer, highest, timeout_s=message.timeout_ms / 1000)
        if self._skipping < highest <= HIGHEST_MIRRORED:
            self._skipping = highest
            self._spawn(self._skip_ids(highest))
        if not answer.waits:
            return (answer.encode(),)
        PendingCommit(request.defer(), answer.waits, answer.refuse, answer.encode, acks=ACKS_ALL).start(message.timeout_ms)
        return None

    def _append_all(self, client: Session, message: MirrorAppendRequest, answer: "MirrorAnswer") -> int:
        """Append everything that can be; the highest producer id in it."""
        refusal = _why_too_large(message)
        highest = -1
        for topic in message.topics:
            answer.topics.append(TopicMirrored(topic.topic_id, []))
            for wanted in topic.partitions:
                partition = None
                try:
                    if refusal is not None:
                        raise refusal
                    partition = self._replicas.partition_for(client, Operation.MIRROR, topic.topic_id, wanted.partition)
                    leader = partition.as_leader()
                    own = self._append(leader, wanted, source=topic.source, is_last=message.is_last)
                    answer.add(partition, leader, highest_producer_id=own if message.is_last else -1)
                    highest = max(highest, own)
                except Exception as error:
                    answer.topics[-1].partitions.append(_refused(wanted.partition, as_kafka_error(error), partition))
        return highest

    def _append(self, leader: Leader, wanted: MirrorPartition, *, source: str, is_last: bool) -> int:
        expected = wanted.expected_end_offset
        if expected == ANY_END and not len(wanted.records):
            expected = leader.log.log_end_offset
        return leader.append_mirrored(wanted.records, source=source, expected_end=expected, now_ms=self._clock.now_ms(), is_last=is_last)

    async def _skip_ids(self, highest: int) -> None:
        try:
            await self._producer_ids.skip_to(highest)
            self._skipping = max(self._skipping, self._producer_ids.skipped)
        except KafkaError as error:
            self._skipping = self._producer_ids.skipped
            logger.warning("the ids of mirrored producers: %s; tried again with the next batches", error)

    async def _end(self, answer: "MirrorAnswer", highest: int, *, timeout_s: float) -> Sequence[Chunk]:
        """The answer to the last request of a mirroring, when its batches are committed and its producer ids set aside."""
        reached: list[Wait] = []
        error: KafkaError | None = None
        are_set_aside = False
        try:
            async with asyncio.timeout(timeout_s):
                self._owed = max(self._owed, highest)
                await self._producer_ids.skip_to(self._owed)
                are_set_aside = True
                for wait in answer.waits:
                    await wait.watermark.reached(wait.offset)
                    reached.append(wait)
        except TimeoutError:
            error = timed_out()
        except KafkaError as failure:
            error = failure
        for wait in answer.waits:
            reason = wait.appended_to.why_not_acknowledged(ACKS_ALL) if wait in reached else error
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
    if size > MAX_BYTES and not is_one_batch:
        return RecordListTooLarge(f"{size} bytes of batches in one MirrorAppend; at most {MAX_BYTES}, or a single batch")
    if size <= MAX_BATCHES * HEADER_SIZE:
        return None
    batches_left = MAX_BATCHES
    for piece in pieces:
        position = 0
        while (end := end_of_batches(piece, position, most=1)) > position:
            position, batches_left = end, batches_left - 1
            if batches_left < 0:
                return RecordListTooLarge(f"more than {MAX_BATCHES} batches in one MirrorAppend")
    return None
