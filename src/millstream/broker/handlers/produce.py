"""Produce (0): append record batches.

Versions 3-13. 5: log start offset in the answer. 7: zstd allowed (KIP-110). 8: record errors and a message per partition (KIP-467).
9: flexible. 10: leader hints (KIP-951). 12: implicit transaction partitions (KIP-890). 13: topics by id (KIP-516).
ApiVersions says 0: librdkafka before 2.11.1 sends uncompressed otherwise (KAFKA-18659); versions 0-2 themselves are refused.

Append now, wait later: each batch is appended in the callback in which it came, except where its records have to be looked into and there
are too many for one turn of the loop (`late_appends`): then what the client sent behind it waits, too. acks=1 is answered in the same
callback unless a flush is due; acks=all waits, without a task, for the high watermark; acks=0 is not answered, and an error with it closes
the connection. Bad records are named where records are looked at: without a key in a compacted topic, and of a time that is refused.

There is one way to the logs, `_append_to_topic`: the batches of a request for a topic, or those of many requests that look alike
(`produce_run`), by partition. A request that is decoded is a run of one.
"""

import logging
from collections.abc import Sequence

from millstream.broker.deadlines import Deadlines
from millstream.broker.failures import as_kafka_error
from millstream.broker.handlers.late_appends import LateAppends
from millstream.broker.handlers.leader_hints import LeaderHints
from millstream.broker.handlers.produce_answer import NO_ACKS, Answering, Appended, Asked, finished, refused
from millstream.broker.handlers.produce_run import PartitionBatches, ProduceRun, ProduceShape
from millstream.broker.handlers.run_answers import RunAnswers
from millstream.broker.network.api import Request, api
from millstream.broker.network.connection import Connection
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.request_times import PRODUCE
from millstream.broker.network.session import Session
from millstream.broker.storage.record_turns import RecordTurns
from millstream.broker.tasks import Spawn
from millstream.buffer import Buffer
from millstream.clock import Clock
from millstream.cluster.leader import Leader
from millstream.cluster.replicas import Replicas, TopicKey
from millstream.cluster.topic_access import Operation
from millstream.errors import InvalidRequiredAcks, KafkaError, UnsupportedCompressionType, UnsupportedVersion
from millstream.log.log import AppendResult, Log
from millstream.log.records.batch_check import why_not_one_batch
from millstream.wire.api import ApiKey
from millstream.wire.batch import CODEC_MASK, HEADER_SIZE, read_header
from millstream.wire.compression import Codec
from millstream.wire.produce import PartitionProduced, ProduceRequest, ProduceTopic, TopicProduced, decode_request, plain_answer

logger = logging.getLogger(__name__)

ALLOWED_ACKS = (-1, 0, 1)
FIRST_WITH_ZSTD = 7


class ProduceFamily:
    """Appends batches to the partitions this broker leads."""

    def __init__(self, replicas: Replicas, clock: Clock, *, turns: RecordTurns, spawn: Spawn) -> None:
        self._replicas = replicas
        self._clock = clock
        self._hints = LeaderHints(replicas)
        self._deadlines = Deadlines()
        self._late = LateAppends(replicas, clock, turns=turns, spawn=spawn)

    @api(ApiKey.PRODUCE, 3, 13, advertised_lowest=0)
    def produce(self, request: Request) -> Sequence[Chunk] | None:
        """Append each partition's batch."""
        version = request.api_version
        produce = decode_request(request.frame, version, start=request.body_start)
        asked = Asked(version, request.correlation_id, produce.acks, produce.timeout_ms, request.session)
        refusal = _refusal(produce)
        if refusal is not None:
            return self._answer(request.connection, asked, Answering(self._hints, self._refuse_all(produce, refusal, asked.client)))
        answering = Answering(self._hints)
        for topic in produce.topics:
            answering.add(asked, topic, self._append_to_topic(asked, topic.key, topic.partitions))
        self._open_lane(request, produce, asked)
        return self._answer(request.connection, asked, answering)

    def _answer(self, connection: Connection, asked: Asked, answering: Answering) -> Sequence[Chunk] | None:
        """The answer, if there is one and it need not wait."""
        if answering.late:
            self._late.append_later(connection, asked, answering)
            return None
        return finished(connection, asked, answering)

    def _refuse_all(self, produce: ProduceRequest, error: KafkaError, client: Session) -> list[TopicProduced]:
        """Refuse the whole request; partitions that are not there, and what is no batch, have their own error, as in Kafka."""
        topics: list[TopicProduced] = []
        for topic in produce.topics:
            answers: list[PartitionProduced] = []
            for index, records in topic.partitions:
                reason = error
                try:
                    self._replicas.partition_for(client, Operation.WRITE, topic.key, index)
                    reason = why_not_one_batch(records or b"") or error
                except KafkaError as own:
                    reason = own
                answers.append(refused(index, reason))
            topics.append(TopicProduced(topic.name, topic.topic_id, answers))
        return topics

    # -- appending

    def _append_to_topic(self, asked: Asked, key: TopicKey | None, batches: PartitionBatches) -> list[Appended]:
        """Append the batches of each partition together; per batch what came of it."""
        now_ms = self._clock.now_ms()
        if len(batches) == 1:
            [(index, batch)] = batches
            return self._append(asked, key, index, [batch or b""], 1, now_ms=now_ms)
        by_partition: dict[int, list[Buffer]] = {}
        for index, batch in batches:
            by_partition.setdefault(index, []).append(batch or b"")
        appended = {index: iter(self._append(asked, key, index, own, len(own), now_ms=now_ms)) for index, own in by_partition.items()}
        return [next(appended[index]) for index, _ in batches]

    def _append(self, asked: Asked, key: TopicKey | None, index: int, batches: list[Buffer], count: int, *, now_ms: int) -> list[Appended]:
        partition = None
        try:
            partition = self._replicas.partition_for(asked.client, Operation.WRITE, key, index)
            leader = partition.as_leader()
            if partition.log.looks_into_records or asked.version < FIRST_WITH_ZSTD:
                results = self._append_with_a_look(asked, leader, batches, now_ms=now_ms)
            else:
                results = leader.append_run(batches, acks=asked.acks, now_ms=now_ms)
            watermark = leader.watermark_for(asked.acks)
            partition.produce_requests += count
        except Exception as error:
            return [(as_kafka_error(error), partition, None)] * len(batches)
        return [(result, partition, watermark) for result in results]

    def _append_with_a_look(
        self, asked: Asked, leader: Leader, batches: list[Buffer], *, now_ms: int
    ) -> Sequence[AppendResult | Exception]:
        if asked.version < FIRST_WITH_ZSTD and any(map(_is_zstd, batches)):
            refusal = UnsupportedCompressionType(f"zstd is allowed from Produce version {FIRST_WITH_ZSTD} on, this is {asked.version}")
            allowed = [batch for batch in batches if not _is_zstd(batch)]
            results = iter(self._append_with_a_look(asked, leader, allowed, now_ms=now_ms) if allowed else ())
            return [refusal if _is_zstd(batch) else next(results) for batch in batches]
        if leader.log.looks_into_records:
            return self._late.append_now(leader, batches, acks=asked.acks, now_ms=now_ms)
        return leader.append_run(batches, acks=asked.acks, now_ms=now_ms)

    # -- runs of requests that look alike

    def _open_lane(self, request: Request, produce: ProduceRequest, asked: Asked) -> None:
        """Let the requests that follow this one and look like it go together, if their records need not be looked into."""
        shape = ProduceShape.of(request, produce, asked)
        log = None if shape is None else self._log_of(*produce.topics)
        if shape is None or log is None or not log.takes_runs:
            request.connection.close_lane()
        else:
            request.open_lane(ProduceRun(request.connection, shape, log, self._finish_run))

    def _log_of(self, topic: ProduceTopic) -> Log | None:
        hosted = None if topic.key is None else self._replicas.topic(topic.key)
        partition = None if hosted is None else hosted.partitions.get(topic.partitions[0][0])
        return None if partition is None else partition.log

    def _finish_run(self, connection: Connection, shape: ProduceShape, correlation_ids: list[int], batches: PartitionBatches) -> None:
        try:
            self._append_run(connection, shape, correlation_ids, batches)
        except Exception:
            logger.exception("a run of %d Produce requests from %s failed", len(correlation_ids), connection.peer)
            connection.close("the broker failed on its request")

    def _append_run(self, connection: Connection, shape: ProduceShape, correlation_ids: list[int], batches: PartitionBatches) -> None:
        """Append the batches of a run and answer its requests in their order; all that need not wait with one `send`."""
        asked, topic = shape.asked, shape.topic
        encode = plain_answer(asked.version, topic.name, topic.topic_id).encode
        answers = RunAnswers(asked, topic, hints=self._hints, deadlines=self._deadlines)
        appended = self._append_to_topic(asked, shape.key, batches)
        for correlation_id, batch, (result, partition, watermark) in zip(correlation_ids, batches, appended, strict=True):
            if type(result) is AppendResult:
                if asked.acks != NO_ACKS:
                    if watermark is not None and watermark.value <= result.last_offset:
                        assert partition is not None
                        answers.wait(correlation_id, batch[0], result, partition, watermark)
                    answers.encoded.append(
                        encode(correlation_id, batch[0], result.base_offset, result.log_append_time_ms, result.log_start_offset)
                    )
                continue
            own = asked._replace(correlation_id=correlation_id)
            answering = Answering(self._hints)
            answering.add(own, topic._replace(partitions=[batch]), [(result, partition, watermark)])
            answers.send(connection)
            answers = RunAnswers(asked, topic, hints=self._hints, deadlines=self._deadlines)
            chunks = self._answer(connection, own, answering)
            if connection.is_closed:
                return
            if chunks is not None:
                connection.reply(chunks, PRODUCE)
        answers.send(connection)


def _refusal(produce: ProduceRequest) -> KafkaError | None:
    """What is wrong with the request as a whole."""
    if produce.acks not in ALLOWED_ACKS:
        return InvalidRequiredAcks(f"acks must be -1 (all), 0 or 1, not {produce.acks}")
    if produce.transactional_id is not None:
        return UnsupportedVersion("this broker does not have transactions yet")
    return None


def _is_zstd(batch: Buffer) -> bool:
    return len(batch) >= HEADER_SIZE and read_header(batch).attributes & CODEC_MASK == Codec.ZSTD
