"""Produce (0): append record batches.

Versions 3-13. 5: log start offset in the answer. 7: zstd allowed (KIP-110). 8: record errors and a message per partition (KIP-467).
9: flexible. 10: leader hints (KIP-951). 12: implicit transaction partitions (KIP-890). 13: topics by id (KIP-516).
ApiVersions says 0: librdkafka before 2.11.1 sends uncompressed otherwise (KAFKA-18659); versions 0-2 themselves are refused.

Append now, wait later: each batch is appended in the callback in which it came, except where its records have to be looked into and there
are too many for one turn of the loop (`late_appends`): then what the client sent behind it waits, too. acks=1 is answered in the same
callback unless a flush is due; acks=all waits, without a task, for the high watermark; acks=0 is not answered, and an error with it closes
the connection. Bad records are named where records are looked at: without a key in a compacted topic, and of a time that is refused.

Topics of the broker's own are not written by clients (INVALID_TOPIC_EXCEPTION), except by tools that call themselves `__admin_client`, as
in Kafka. Such a request never opens the fast lane.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from millstream.broker.failures import as_kafka_error
from millstream.broker.handlers.produce_answer import (
    NO_ACKS,
    Answering,
    Asked,
    Late,
    Wait,
    close_on_error,
    placed,
    refused,
    wait,
)
from millstream.broker.handlers.produce_run import ProduceRun, ProduceShape, TakenRequest
from millstream.broker.network.api import Request, api
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.router import Spawn
from millstream.broker.storage.late_appends import LateAppends, is_late
from millstream.broker.storage.record_turns import RecordTurns
from millstream.clock import Clock
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas, TopicKey
from millstream.cluster.watermark import Watermark
from millstream.coordination.cluster_view import INTERNAL_TOPICS
from millstream.errors import InvalidRequiredAcks, InvalidTopic, KafkaError, UnsupportedVersion
from millstream.log.log import AppendResult, Log
from millstream.log.records.batch_check import why_not_one_batch
from millstream.wire.api import ApiKey
from millstream.wire.produce import PartitionProduced, ProduceRequest, TopicProduced, decode_request, encode_response, plain_answer

logger = logging.getLogger(__name__)

ALLOWED_ACKS = (-1, 0, 1)
ADMIN_CLIENT = "__admin_client"


Appended = tuple[AppendResult | KafkaError, Watermark | None]
"""The place of a batch, or why it has none; and what its answer has to wait for."""


class ProduceFamily:
    """Appends batches to the partitions this broker leads."""

    def __init__(self, replicas: Replicas, clock: Clock, *, turns: RecordTurns, spawn: Spawn) -> None:
        self._replicas = replicas
        self._clock = clock
        self._late = LateAppends(self._writable, clock, turns=turns, spawn=spawn)

    @api(ApiKey.PRODUCE, 3, 13, advertised_lowest=0)
    def produce(self, request: Request) -> Sequence[Chunk] | None:
        """Append each partition's batch."""
        version = request.api_version
        produce = decode_request(request.frame, version, start=request.body_start)
        asked = Asked(version, request.correlation_id, produce.acks, produce.timeout_ms, request.client_id)
        refusal = _refusal(produce)
        if refusal is None:
            answering = self._append_all(request, produce, asked)
            if answering.late:
                self._late.append_later(request.connection, asked, answering)
                return None
        else:
            answering = Answering(self._refuse_all(produce, refusal, asked.client_id))
        if produce.acks == NO_ACKS:
            close_on_error(request.connection, answering.topics)
            return None
        if not answering.waits:
            return (encode_response(version, request.correlation_id, topics=answering.topics),)
        wait(request.defer(), asked, answering)
        return None

    def _append_all(self, request: Request, produce: ProduceRequest, asked: Asked) -> Answering:
        now_ms = self._clock.now_ms()
        answering = Answering([])
        topics, late = answering.topics, answering.late
        lane_log: Log | None = None
        for name, topic_id, partitions in produce.topics:
            answers: list[PartitionProduced] = []
            key = topic_id if name is None else name
            for index, records in partitions:
                partition = None
                try:
                    partition = self._writable(key, index, asked.client_id)
                    checked = None
                    if partition.log.looks_into_records:
                        checked = self._late.check_now(partition, records, asked, is_behind=bool(late), now_ms=now_ms)
                    else:
                        lane_log = partition.log
                    result = partition.append_as_leader(
                        records, acks=asked.acks, now_ms=now_ms, produce_version=asked.version, checked=checked
                    )
                except Exception as error:
                    if records is not None and is_late(error, asked.version):
                        late.append(Late(len(topics), len(answers), bytes(records), error if isinstance(error, KafkaError) else None))
                        answers.append(PartitionProduced(index))
                    else:
                        answers.append(answering.refused(index, as_kafka_error(error), partition))
                    continue
                answers.append(placed(answering, partition, result, acks=asked.acks, place=(len(topics), len(answers))))
            topics.append(TopicProduced(name, topic_id, answers))
        self._open_lane(request, produce, lane_log)
        return answering

    def _open_lane(self, request: Request, produce: ProduceRequest, log: Log | None) -> None:
        """Let the requests that follow this one and look like it go together (`produce_run`), if nobody looks into their records."""
        shape = None if log is None else ProduceShape.of(request, produce)
        run = None if shape is None or log is None else ProduceRun(request.connection, shape, log, self._finish_run)
        request.connection.lane = run

    def _refuse_all(self, produce: ProduceRequest, error: KafkaError, client_id: str | None) -> list[TopicProduced]:
        """Refuse the whole request; partitions that are not there, and what is no batch, are told apart, as in Kafka."""
        topics: list[TopicProduced] = []
        for name, topic_id, partitions in produce.topics:
            answers: list[PartitionProduced] = []
            for index, records in partitions:
                reason = error
                try:
                    self._writable(topic_id if name is None else name, index, client_id)
                    reason = why_not_one_batch(records or b"") or error
                except KafkaError as own:
                    reason = own
                answers.append(refused(index, reason))
            topics.append(TopicProduced(name, topic_id, answers))
        return topics

    # -- runs of requests that look alike

    def _writable(self, key: TopicKey | None, index: int, client_id: str | None) -> Partition:
        """The partition, if clients like this one may write to it: the ordinary and the short way both ask here."""
        partition = self._replicas.partition(key, index)
        if partition.topic in INTERNAL_TOPICS and client_id != ADMIN_CLIENT:
            raise InvalidTopic(f"{partition.topic} is written by the broker alone")
        return partition

    def _known(self, shape: ProduceShape, index: int) -> Partition | None:
        with suppress(KafkaError):
            return self._replicas.partition(shape.topic_id if shape.name is None else shape.name, index)
        return None

    def _finish_run(self, run: ProduceRun, taken: list[TakenRequest]) -> None:
        try:
            self._append_run(run, taken)
        except Exception:
            logger.exception("a run of %d Produce requests from %s failed", len(taken), run.connection.peer)
            run.connection.close("the broker failed on its request")

    def _append_run(self, run: ProduceRun, taken: list[TakenRequest]) -> None:
        """Append the batches of a run and answer its requests in their order."""
        version, name, topic_id, acks = run.shape.version, run.shape.name, run.shape.topic_id, run.shape.acks
        results = self._append_by_partition(run.shape, taken)
        plain = plain_answer(version, name, topic_id)
        ready: list[bytes] = []
        for (correlation_id, index, batch), (result, watermark) in zip(taken, results, strict=True):
            answering = None
            if isinstance(result, KafkaError):
                answering = Answering([TopicProduced(name, topic_id, [refused(index, result, self._known(run.shape, index))])])
                if acks == NO_ACKS:
                    close_on_error(run.connection, answering.topics)
                    return
                if not is_late(result, version):
                    ready.append(encode_response(version, correlation_id, topics=answering.topics))
                    continue
                answering.late.append(Late(0, 0, bytes(batch), result))
            else:
                base_offset, last_offset, time_ms, start_offset, _ = result
                if watermark is None or watermark.value > last_offset:
                    ready.append(plain.encode(correlation_id, index, base_offset, time_ms, start_offset))
                    continue
                produced = [PartitionProduced(index, 0, base_offset, time_ms, start_offset)]
                answering = Answering([TopicProduced(name, topic_id, produced)], [Wait(watermark, last_offset + 1, 0, 0)])
            if ready:
                run.connection.reply((b"".join(ready),))
                ready = []
            asked = Asked(version, correlation_id, acks, run.shape.timeout_ms, run.shape.client_id)
            if answering.late:
                self._late.append_later(run.connection, asked, answering)
            else:
                wait(run.connection.defer(), asked, answering)
        if ready and acks != NO_ACKS:
            run.connection.reply((b"".join(ready),))

    def _append_by_partition(self, shape: ProduceShape, taken: list[TakenRequest]) -> list[Appended]:
        """Per request the place of its batch, or why there is none, and what its answer has to wait for."""
        now_ms = self._clock.now_ms()
        partitions = {request.partition for request in taken}
        if len(partitions) == len(taken):
            return [self._append_one(request, shape, now_ms=now_ms) for request in taken]
        if len(partitions) == 1:
            return self._append_to(taken[0].partition, [request.batch for request in taken], shape=shape, now_ms=now_ms)
        places: dict[int, list[int]] = defaultdict(list)
        for place, request in enumerate(taken):
            places[request.partition].append(place)
        found: dict[int, Appended] = {}
        for index, mine in places.items():
            found.update(zip(mine, self._append_to(index, [taken[place].batch for place in mine], shape=shape, now_ms=now_ms), strict=True))
        return [found[place] for place in range(len(taken))]

    def _append_one(self, request: TakenRequest, shape: ProduceShape, *, now_ms: int) -> Appended:
        try:
            partition = self._writable(shape.topic_id if shape.name is None else shape.name, request.partition, shape.client_id)
            result = partition.append_as_leader(request.batch, acks=shape.acks, now_ms=now_ms, produce_version=shape.version)
        except Exception as error:
            return as_kafka_error(error), None
        return result, partition.watermark_for(shape.acks)

    def _append_to(self, index: int, batches: list[memoryview], *, shape: ProduceShape, now_ms: int) -> list[Appended]:
        try:
            partition = self._writable(shape.topic_id if shape.name is None else shape.name, index, shape.client_id)
            results = partition.append_run_as_leader(batches, acks=shape.acks, now_ms=now_ms, produce_version=shape.version)
        except Exception as error:
            return [(as_kafka_error(error), None)] * len(batches)
        watermark = partition.watermark_for(shape.acks)
        return [(result if isinstance(result, AppendResult) else as_kafka_error(result), watermark) for result in results]


def _refusal(produce: ProduceRequest) -> KafkaError | None:
    """What is wrong with the request as a whole."""
    if produce.acks not in ALLOWED_ACKS:
        return InvalidRequiredAcks(f"acks must be -1 (all), 0 or 1, not {produce.acks}")
    if produce.transactional_id is not None:
        return UnsupportedVersion("this broker does not have transactions yet")
    return None
