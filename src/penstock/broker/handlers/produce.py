"""Produce (0): append record batches.

Versions 3-13. 5: log start offset in the answer. 7: zstd allowed (KIP-110). 8: record errors and a message per partition (KIP-467).
9: flexible. 10: leader hints (KIP-951). 12: implicit transaction partitions (KIP-890). 13: topics by id (KIP-516).
ApiVersions says 0: librdkafka before 2.11.1 sends uncompressed otherwise (KAFKA-18659); versions 0-2 themselves are refused.

Append now, wait later: each batch is appended in the callback in which it came. acks=1 is answered in the same callback unless a flush is
due; acks=all waits, without a task, for the high watermark; acks=0 is not answered, and an error with it closes the connection.

Topics of the broker's own are not written by clients (INVALID_TOPIC_EXCEPTION), except by tools that call themselves `__admin_client`, as
in Kafka. Such a request never opens the fast lane.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from penstock.broker.api import Request, api
from penstock.broker.connection import Connection, PendingReply
from penstock.broker.failures import as_kafka_error
from penstock.broker.outbox import Chunk
from penstock.broker.produce_run import ProduceRun, ProduceShape, TakenRequest
from penstock.clock import Clock
from penstock.cluster.partition import Partition
from penstock.cluster.replicas import Replicas, TopicKey
from penstock.cluster.watermark import Watermark
from penstock.coordination.cluster_view import INTERNAL_TOPICS
from penstock.errors import InvalidRequiredAcks, InvalidTopic, KafkaError, RequestTimedOut, UnsupportedVersion
from penstock.log.log import AppendResult
from penstock.wire.api import ApiKey
from penstock.wire.produce import PartitionProduced, ProduceRequest, TopicProduced, decode_request, encode_response, plain_answer

logger = logging.getLogger(__name__)

NO_ACKS = 0
ALLOWED_ACKS = (-1, 0, 1)
ADMIN_CLIENT = "__admin_client"


Appended = tuple[AppendResult | KafkaError, Watermark | None]
"""The place of a batch, or why it has none; and what its answer has to wait for."""


class Wait(NamedTuple):
    """A partition of a request that may not be answered before a watermark has reached an offset."""

    watermark: Watermark
    offset: int
    topic: int
    partition: int


class ProduceFamily:
    """Appends batches to the partitions this broker leads."""

    def __init__(self, replicas: Replicas, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock

    @api(ApiKey.PRODUCE, 3, 13, advertised_lowest=0)
    def produce(self, request: Request) -> Sequence[Chunk] | None:
        """Append each partition's batch."""
        version = request.api_version
        produce = decode_request(request.frame, version, start=request.body_start)
        waits: list[Wait] = []
        refusal = _refusal(produce)
        if refusal is None:
            self._open_lane(request, produce)
            topics = self._append_all(produce, version, waits=waits, client_id=request.client_id)
        else:
            topics = _refuse_all(produce, refusal)
        if produce.acks == NO_ACKS:
            _close_on_error(request.connection, topics)
            return None
        if not waits:
            return (encode_response(version, request.correlation_id, topics=topics),)
        PendingProduce(request.defer(), topics, waits, version=version, correlation_id=request.correlation_id).start(produce.timeout_ms)
        return None

    def _append_all(self, produce: ProduceRequest, version: int, *, waits: list[Wait], client_id: str | None) -> list[TopicProduced]:
        acks = produce.acks
        now_ms = self._clock.now_ms()
        topics: list[TopicProduced] = []
        for name, topic_id, partitions in produce.topics:
            answers: list[PartitionProduced] = []
            key = topic_id if name is None else name
            for index, records in partitions:
                try:
                    partition = self._writable(key, index, client_id)
                    result = partition.append_as_leader(records, acks=acks, now_ms=now_ms, produce_version=version)
                except Exception as error:
                    answers.append(_refused(index, as_kafka_error(error)))
                    continue
                watermark = partition.watermark_for(acks)
                if watermark is not None and watermark.value <= result.last_offset:
                    waits.append(Wait(watermark, result.last_offset + 1, len(topics), len(answers)))
                answers.append(PartitionProduced(index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset))
            topics.append(TopicProduced(name, topic_id, answers))
        return topics

    def _open_lane(self, request: Request, produce: ProduceRequest) -> None:
        """Let the requests that follow this one and look like it go together (`produce_run`)."""
        shape = ProduceShape.of(request, produce)
        request.connection.lane = None if shape is None else ProduceRun(request.connection, shape, self._finish_run)

    def _writable(self, key: TopicKey | None, index: int, client_id: str | None) -> Partition:
        """The partition, if clients like this one may write to it: the ordinary and the short way both ask here."""
        partition = self._replicas.partition(key, index)
        if partition.topic in INTERNAL_TOPICS and client_id != ADMIN_CLIENT:
            raise InvalidTopic(f"{partition.topic} is written by the broker alone")
        return partition

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
        for (correlation_id, index, _), (result, watermark) in zip(taken, results, strict=True):
            if isinstance(result, KafkaError):
                topics = [TopicProduced(name, topic_id, [_refused(index, result)])]
                if acks == NO_ACKS:
                    _close_on_error(run.connection, topics)
                    return
                ready.append(encode_response(version, correlation_id, topics=topics))
                continue
            base_offset, last_offset, time_ms, start_offset, _ = result
            if watermark is None or watermark.value > last_offset:
                ready.append(plain.encode(correlation_id, index, base_offset, time_ms, start_offset))
                continue
            if ready:
                run.connection.reply((b"".join(ready),))
                ready = []
            topics = [TopicProduced(name, topic_id, [PartitionProduced(index, 0, base_offset, time_ms, start_offset)])]
            waits = [Wait(watermark, last_offset + 1, 0, 0)]
            pending = PendingProduce(run.connection.defer(), topics, waits, version=version, correlation_id=correlation_id)
            pending.start(run.shape.timeout_ms)
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


class PendingProduce:
    """An answer that waits until its batches are committed (acks=all) or on disk (a flush is due), or the client's time is up."""

    __slots__ = ("_correlation_id", "_pending", "_remaining", "_timer", "_topics", "_version")

    def __init__(self, pending: PendingReply, topics: list[TopicProduced], waits: list[Wait], *, version: int, correlation_id: int) -> None:
        self._pending = pending
        self._topics = topics
        self._version = version
        self._correlation_id = correlation_id
        self._remaining = dict(enumerate(waits))
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_ms: int) -> None:
        """Begin to wait."""
        self._timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, self._time_is_up)
        self._pending.on_abandon = self._abandoned
        for number, wait in list(self._remaining.items()):
            wait.watermark.wait_for(wait.offset, partial(self._reached, number), token=(self, number))

    def _reached(self, number: int, error: KafkaError | None) -> None:
        wait = self._remaining.pop(number)
        if error is not None:
            self._refuse(wait, error)
        if not self._remaining:
            self._finish()

    def _time_is_up(self) -> None:
        for wait in self._stop_waiting():
            self._refuse(wait, RequestTimedOut("the batch was appended, but not committed within the timeout of the request"))
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
        answers[wait.partition] = _refused(answers[wait.partition].partition, error)

    def _finish(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._pending.complete((encode_response(self._version, self._correlation_id, topics=self._topics),))


def _refusal(produce: ProduceRequest) -> KafkaError | None:
    """What is wrong with the request as a whole."""
    if produce.acks not in ALLOWED_ACKS:
        return InvalidRequiredAcks(f"acks must be -1 (all), 0 or 1, not {produce.acks}")
    if produce.transactional_id is not None:
        return UnsupportedVersion("this broker does not have transactions yet")
    return None


def _refuse_all(produce: ProduceRequest, error: KafkaError) -> list[TopicProduced]:
    return [
        TopicProduced(name, topic_id, [_refused(index, error) for index, _ in partitions]) for name, topic_id, partitions in produce.topics
    ]


def _refused(index: int, error: KafkaError) -> PartitionProduced:
    return PartitionProduced(index, error.code, error_message=str(error))


def _close_on_error(connection: Connection, topics: list[TopicProduced]) -> None:
    for topic in topics:
        for answer in topic.partitions:
            if answer.error_code:
                connection.close(f"a produce with acks=0 failed, and closing is the only way to say so: {answer.error_message}")
                return
