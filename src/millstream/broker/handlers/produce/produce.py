"""Produce (0): append record batches.

Versions 3-13. 5: log start offset in the answer. 7: zstd allowed (KIP-110). 8: record errors and a message per partition (KIP-467).
9: flexible. 10: leader hints (KIP-951). 11: the client knows TRANSACTION_ABORTABLE. 12: the broker adds partitions to the transaction
(KIP-890). 13: topics by id (KIP-516).
ApiVersions says 0: librdkafka before 2.11.1 sends uncompressed otherwise (KAFKA-18659); versions 0-2 themselves are refused.

Append now, wait later: each batch is appended in the callback in which it came, except where its records have to be looked into and there
are too many for one turn of the loop (`late_appends`): then what the client sent behind it waits, too. acks=1 is answered in the same
callback unless a flush is due; acks=all waits, without a task, for the high watermark; acks=0 is not answered, and an error with it closes
the connection. Bad records are named where records are looked at: without a key in a compacted topic, and of a time that is refused.
The first batch of a transaction waits in the same way, until the coordinator has confirmed it, unless this broker is the coordinator and
knows the partition already; those that follow it do not wait.

There is one way to the logs, `_append_to_topic`: the batches of a request for a topic, or those of many requests that look alike
(`produce_run`), by partition. A request that is decoded is a run of one.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millstream.broker.deadlines import Deadlines
from millstream.broker.failures import as_kafka_error
from millstream.broker.handlers.leader_hints import LeaderHints
from millstream.broker.handlers.produce.late_appends import LateAppends
from millstream.broker.handlers.produce.produce_answer import NO_ACKS, Answering, Appended, Asked, finished, refused, transactional_writes
from millstream.broker.handlers.produce.produce_run import PartitionBatches, ProduceRun, ProduceShape
from millstream.broker.handlers.produce.run_answers import RunAnswers
from millstream.broker.network.api import Request, api
from millstream.broker.network.connection import Connection
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.request_times import PRODUCE
from millstream.broker.network.session import Session
from millstream.broker.storage.record_turns import RecordTurns
from millstream.broker.tasks import Spawn
from millstream.broker.transactions.verification import TransactionVerification
from millstream.buffer import Buffer
from millstream.clock import Clock
from millstream.cluster.leader import Leader
from millstream.cluster.replicas import Replicas, TopicKey
from millstream.cluster.topic_access import Operation
from millstream.errors import InvalidRequiredAcks, KafkaError, UnsupportedCompressionType
from millstream.log.log import AppendResult, Log
from millstream.log.producer_state import TransactionalWrites, without_transactional_id
from millstream.log.records.batch_check import why_not_one_batch
from millstream.transaction_errors import Unverified
from millstream.wire.api import ApiKey
from millstream.wire.batch import CODEC_MASK, FLAGS_POSITION, HEADER_SIZE, TRANSACTIONAL, read_header
from millstream.wire.compression import Codec
from millstream.wire.produce import PartitionProduced, ProduceRequest, ProduceTopic, TopicProduced, decode_request, plain_answer

if TYPE_CHECKING:
    from millstream.broker.handlers.produce.produce_turn import ProduceTurn, TurnRequest

logger = logging.getLogger(__name__)

ALLOWED_ACKS = (-1, 0, 1)
FIRST_WITH_ZSTD = 7
CONTINUED, REFUSED = TransactionalWrites.CONTINUED, TransactionalWrites.REFUSED


class ProduceFamily:
    """Appends batches to the partitions this broker leads."""

    def __init__(
        self, replicas: Replicas, clock: Clock, *, verification: TransactionVerification, turns: RecordTurns, spawn: Spawn
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._hints = LeaderHints(replicas)
        self._deadlines = Deadlines()
        self._turn: ProduceTurn | None = None
        self._late = LateAppends(replicas, clock, verification=verification, turns=turns, spawn=spawn)

    @api(ApiKey.PRODUCE, 3, 13, advertised_lowest=0)
    def produce(self, request: Request) -> Sequence[Chunk] | None:
        """Append each partition's batch."""
        version = request.api_version
        produce = decode_request(request.frame, version, start=request.body_start)
        asked = Asked(version, request.correlation_id, produce.acks, produce.timeout_ms, request.session, produce.transactional_id)
        refused_topics = self._refused_as_a_whole(produce, asked.client)
        if refused_topics is not None:
            return self._answer(request.connection, asked, Answering(self._hints, refused_topics))
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

    def _refused_as_a_whole(self, produce: ProduceRequest, client: Session) -> list[TopicProduced] | None:
        """The answer to a request of which nothing is appended, because of what it is as a whole."""
        if produce.transactional_id is not None or len(produce.topics) != 1 or len(produce.topics[0].partitions) != 1:
            refusal = _transactional_refusal(produce)
            if refusal is not None:
                return [
                    TopicProduced(topic.name, topic.topic_id, [refused(index, refusal) for index, _ in topic.partitions])
                    for topic in produce.topics
                ]
        if produce.acks not in ALLOWED_ACKS:
            return self._refuse_all(produce, InvalidRequiredAcks(f"acks must be -1 (all), 0 or 1, not {produce.acks}"), client)
        return None

    def _refuse_all(self, produce: ProduceRequest, error: KafkaError, client: Session) -> list[TopicProduced]:
        """Refuse all batches; partitions that are not there, and what is no batch, have their own error, as in Kafka."""
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
                transactional = CONTINUED if asked.transactional_id is not None else REFUSED
                results = leader.append_run(batches, acks=asked.acks, now_ms=now_ms, transactional=transactional)
                if transactional is CONTINUED and all(type(result) is Unverified for result in results):
                    results = self._late.begin_at_once(asked, partition, leader, batches, now_ms=now_ms) or results
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
        transactional = transactional_writes(asked)
        if leader.log.looks_into_records:
            return self._late.append_now(leader, batches, acks=asked.acks, now_ms=now_ms, transactional=transactional)
        return leader.append_run(batches, acks=asked.acks, now_ms=now_ms, transactional=transactional)

    # -- runs of requests that look alike

    def _open_lane(self, request: Request, produce: ProduceRequest, asked: Asked) -> None:
        """Let the requests that follow this one and look like it go together, if their records need not be looked into."""
        shape = ProduceShape.of(request, produce, asked)
        log = None if shape is None else self._log_of(*produce.topics)
        if shape is None or log is None or not log.takes_runs:
            request.connection.close_lane()
        else:
            if self._turn is None:
                from millstream.broker.handlers.produce.produce_turn import ProduceTurn  # a broker starts sooner without it

                self._turn = ProduceTurn(self._finish_together)
            request.open_lane(ProduceRun(request.connection, shape, log, self._finish_run, self._turn))

    def _log_of(self, topic: ProduceTopic) -> Log | None:
        hosted = None if topic.key is None else self._replicas.topic(topic.key)
        partition = None if hosted is None else hosted.partitions.get(topic.partitions[0][0])
        return None if partition is None else partition.log

    def _finish_run(self, connection: Connection, shape: ProduceShape, correlation_ids: Sequence[int], batches: PartitionBatches) -> None:
        """Append the batches of a run and answer its requests."""
        try:
            appended = self._append_to_topic(shape.asked, shape.key, batches)
            self._answer_run(connection, shape, correlation_ids, batches, appended)
        except Exception:
            logger.exception("a run of %d Produce requests from %s failed", len(correlation_ids), connection.peer)
            connection.close("the broker failed on its request")

    def _finish_together(self, requests: "Sequence[TurnRequest]") -> None:
        """Append the batches of several clients for one partition, and answer each."""
        try:
            for request, appended in zip(requests, self._append_together(requests), strict=True):
                connection, shape, correlation_id, index, batch = request
                if not connection.is_closed:
                    self._answer_run(connection, shape, (correlation_id,), ((index, batch),), (appended,))
        except Exception:
            logger.exception("a turn of %d Produce requests failed", len(requests))
            for request in requests:
                request.connection.close("the broker failed on its request")

    def _append_together(self, requests: "Sequence[TurnRequest]") -> list[Appended]:
        """Append batches for one partition by one call; whoever may not write to it is refused alone."""
        refusals: dict[int, KafkaError] = {}
        for number, (_, shape, _, index, _) in enumerate(requests):
            try:
                self._replicas.partition_for(shape.asked.client, Operation.WRITE, shape.key, index)
            except KafkaError as error:
                refusals[number] = error
        allowed = [request for number, request in enumerate(requests) if number not in refusals] if refusals else requests
        if not allowed:
            return [(error, None, None) for error in refusals.values()]
        shape, index = allowed[0].shape, allowed[0].partition
        batches: list[Buffer] = [request.batch for request in allowed]
        results = self._append(shape.asked, shape.key, index, batches, len(batches), now_ms=self._clock.now_ms())
        if not refusals:
            return results
        appended = iter(results)
        return [(refusals[number], None, None) if number in refusals else next(appended) for number in range(len(requests))]

    def _answer_run(
        self,
        connection: Connection,
        shape: ProduceShape,
        correlation_ids: Sequence[int],
        batches: PartitionBatches,
        appended: Sequence[Appended],
    ) -> None:
        """Answer the requests of a run in their order; all that need not wait with one `send`."""
        asked, topic = shape.asked, shape.topic
        encode = plain_answer(asked.version, topic.name, topic.topic_id).encode
        if len(appended) == 1 and asked.acks != NO_ACKS:
            # What clients that wait for each answer send: nothing has to be gathered.
            result, _, watermark = appended[0]
            if type(result) is AppendResult and (watermark is None or watermark.value > result.last_offset):
                base_offset, _, append_time_ms, start_offset, _ = result
                connection.reply((encode(correlation_ids[0], batches[0][0], base_offset, append_time_ms, start_offset),), PRODUCE)
                return
        answers = RunAnswers(asked, topic, hints=self._hints, deadlines=self._deadlines)
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


def _transactional_refusal(produce: ProduceRequest) -> KafkaError | None:
    """What is wrong with the transactional batches of a request; a single one without a transactional id is refused by its log."""
    producers: set[tuple[int, int]] = set()
    for topic in produce.topics:
        for _, records in topic.partitions:
            if records is not None and len(records) >= HEADER_SIZE and records[FLAGS_POSITION] & TRANSACTIONAL:
                if produce.transactional_id is None:
                    return without_transactional_id()
                header = read_header(records)
                if header.producer_id >= 0:
                    producers.add((header.producer_id, header.producer_epoch))
    if len(producers) > 1:
        from millstream.transaction_errors import InvalidProducerIdMapping

        return InvalidProducerIdMapping("the transactional batches of a request have to be of one producer, in one epoch")
    return None


def _is_zstd(batch: Buffer) -> bool:
    return len(batch) >= HEADER_SIZE and batch[FLAGS_POSITION] & CODEC_MASK == Codec.ZSTD
