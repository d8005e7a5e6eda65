"""A blocking producer of ready-made batches: idempotent, with several requests under way, for one thread.

    producer = RawProducer(ProducerSettings("127.0.0.1:9092"))
    producer.append(TopicPartition("clicks", 0), seal, record_count=3, size_bytes=200)    # sends; waits only if too much is unanswered
    producer.flush()                                                                      # everything is written when it returns

`seal` makes the bytes of a batch when its producer id and sequence are known: what they are made of is the caller's business.
`partition_queue` decides what is sent and what an answer means; here is the waiting: requests go out to each leader while it has fewer than
five unanswered, and the oldest answer is waited for when nothing more can be sent. A connection that breaks puts back all that was on it,
the leaders are asked for again, and everything goes on until the time of a batch is up (`delivery.timeout.ms`).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import Any, Final

from millstream.buffer import Buffer
from millstream.client.cluster import Cluster
from millstream.client.codecs.metadata import NO_LEADER, TopicMetadata
from millstream.client.codecs.produce import ALL_REPLICAS, BatchFor, ProduceAnswer, ProducedPartition, ProduceRequest
from millstream.client.codecs.request import MessageRequest
from millstream.client.connection import Connection, OpenSocket, open_tcp
from millstream.client.conversation import Pending
from millstream.client.errors import BrokerUnavailable, DeliveryFailed, kafka_error
from millstream.client.partition_queue import MOST_IN_FLIGHT, PartitionQueue, QueuedBatch, Verdict
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.client.transactions import TransactionWriting
from millstream.errors import InvalidTopic, MessageTooLarge, MillstreamError, UnknownTopicOrPartition
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.batch import NO_SEQUENCE
from millstream.wire.records import NO_PRODUCER, ProducerStamp

_MILLISECONDS: Final = 1000
_NEWEST_INIT_PRODUCER_ID: Final = 5

Seal = Callable[[ProducerStamp], Buffer]


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How a producer produces: Kafka's options of these names. Equal settings may share a producer.

    Two defaults differ from Kafka's, for programs that write much at once and wait for no single record: `batch_size` is 512 KiB, not 16,
    and `max_block_ms` ten seconds, not sixty, which every attempt of a task would wait for a topic that does not exist.
    """

    bootstrap_servers: str
    client_id: str = "millstream-producer"
    acks: int = ALL_REPLICAS
    is_idempotent: bool = True
    batch_size: int = 512 * 1024
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1024 * 1024
    max_in_flight: int = MOST_IN_FLIGHT
    retries: int = 2**31 - 1
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    transaction_timeout_ms: int | None = None
    """How long a transaction may be open; None for a producer without transactions."""
    security: ClientSecurity = NO_SECURITY
    option_prefix: str = ""
    """What stands before Kafka's names where these settings were given, for messages: `kafka.` in Spark."""

    @property
    def is_transactional(self) -> bool:
        """Whether its batches belong to transactions."""
        return self.transaction_timeout_ms is not None

    def option(self, name: str) -> str:
        """The name of an option as who set it knows it."""
        return self.option_prefix + name


class _Unanswered:
    """A request under way and the batches in it."""

    __slots__ = ("batches", "connection", "pending")

    def __init__(self, connection: Connection, pending: Pending[ProduceAnswer], batches: list[QueuedBatch]) -> None:
        self.connection = connection
        self.pending = pending
        self.batches = batches


class RawProducer:
    """One producer; see the module. After an exception it must be closed."""

    def __init__(self, settings: ProducerSettings, *, open_socket: OpenSocket = open_tcp) -> None:
        self.settings = settings
        self.last_used = monotonic()
        self.batch_size = settings.batch_size
        """How large batches should be; it shrinks when a topic takes only smaller ones."""
        self._asked_topics: set[str] = set()
        timeout_s = settings.request_timeout_ms / _MILLISECONDS
        self._cluster = Cluster(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            timeout_s=timeout_s,
            security=settings.security,
            open_socket=open_socket,
        )
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._unanswered: deque[_Unanswered] = deque()
        self._held_bytes = 0
        self._producer: ProducerStamp | None = None
        self._transaction: TransactionWriting | None = None
        self._added: set[TopicPartition] = set()
        """The partitions that the transaction knows of."""
        self._last_trouble = ""

    @property
    def cluster(self) -> Cluster:
        """The cluster it writes to."""
        return self._cluster

    def close(self) -> None:
        """Close the connections; what is not written is given up."""
        self._cluster.close()

    def begin(self, transaction: TransactionWriting) -> None:
        """All that is appended from here on belongs to this transaction; it has to be made of transactional batches."""
        assert not any(queue.batches for queue in self._queues.values()), "a transaction begins in the middle of a flush"
        opened = transaction.opened
        self._transaction = transaction
        self._producer = ProducerStamp(opened.producer_id, opened.epoch, NO_SEQUENCE)
        self._added.clear()
        self._queues.clear()  # each epoch counts its sequences anew

    def topic(self, name: str) -> TopicMetadata:
        """A topic with its partitions, created if the broker does such things; waits for it up to `max.block.ms`."""
        known = self._cluster.metadata.topics.get(name) if name in self._asked_topics else None
        self._asked_topics.add(name)
        deadline = monotonic() + self.settings.max_block_ms / _MILLISECONDS
        while known is None or known.error_code or not known.partitions:
            trouble = ""
            try:
                known = self._cluster.refresh([name], create=True).topics.get(name)
            except BrokerUnavailable as error:
                trouble = str(error)
            if known is not None and known.error_code == InvalidTopic.code:
                raise DeliveryFailed(f"{name!r} is not the name of a topic: letters, digits, '.', '_' and '-', at most 249 of them")
            if known is None or known.error_code or not known.partitions:
                if monotonic() > deadline:
                    raise self._no_topic(name, trouble)
                self._pause()
        return known

    def append(self, place: TopicPartition, seal: Seal, *, record_count: int, size_bytes: int) -> None:
        """Take a batch of this size before compression, and send what can be sent; waits while more than `buffer.memory` is unanswered."""
        queue = self._queues.setdefault(place, PartitionQueue())
        content = seal(self._stamp(queue, record_count))
        deadline = monotonic() + self.settings.delivery_timeout_ms / _MILLISECONDS
        queue.batches.append(QueuedBatch(place, content, record_count=record_count, unpacked_bytes=size_bytes, deadline=deadline))
        self._held_bytes += len(content)
        self._send_ready()
        while self._held_bytes > self.settings.buffer_memory:
            self._step()

    def flush(self) -> None:
        """Wait until everything is written."""
        while any(queue.batches for queue in self._queues.values()):
            self._step()
        self.last_used = monotonic()
        self._asked_topics.clear()  # partitions may be added before the next task

    def _step(self) -> None:
        """Send what can be sent, or take one answer, or wait for a pause to end."""
        if self._send_ready():
            return
        if self._unanswered:
            self._take_answer(self._unanswered.popleft())
        else:
            self._check_deadlines()
            self._pause()

    def _send_ready(self) -> bool:
        """Send one request to every leader that may get one; whether any was sent."""
        now = monotonic()
        ready: dict[int, list[QueuedBatch]] = {}
        sizes: dict[int, int] = {}
        for place, queue in self._queues.items():
            batch = queue.next_to_send(now)
            if batch is None:
                continue
            leader = self._leader(place)
            if leader == NO_LEADER or (sizes.get(leader, 0) and sizes[leader] + len(batch.content) > self.settings.max_request_size):
                continue
            sizes[leader] = sizes.get(leader, 0) + len(batch.content)
            ready.setdefault(leader, []).append(batch)
        if self._transaction is not None:
            self._add_to(self._transaction, {batch.place for batches in ready.values() for batch in batches})
        sent = [self._send(leader, batches) for leader, batches in ready.items()]
        return any(sent)

    def _add_to(self, transaction: TransactionWriting, places: set[TopicPartition]) -> None:
        if new := places - self._added:
            transaction.add_partitions(new)
            self._added |= new

    def _send(self, leader: int, batches: list[QueuedBatch]) -> bool:
        try:
            connection = self._cluster.connection(leader)
            if connection.unanswered >= self.settings.max_in_flight:
                return False
            for batch in batches:
                self._queues[batch.place].sent(batch)
            pending = connection.send(self._request(batches))
        except BrokerUnavailable as error:
            self._give_up_connections(error)
            self._put_back(batches, str(error))
            return True
        if pending.request.has_answer:
            self._unanswered.append(_Unanswered(connection, pending, batches))
        else:
            for batch in batches:
                self._done(batch)
        return True

    def _request(self, batches: list[QueuedBatch]) -> ProduceRequest:
        contents = [BatchFor(*batch.place, batch.content) for batch in batches]
        request = ProduceRequest(contents, self.settings.acks, self.settings.request_timeout_ms)
        if self._transaction is None:
            return request
        return replace(request, transactional_id=self._transaction.opened.transactional_id, version=self._transaction.produce_version)

    def _take_answer(self, asked: _Unanswered) -> None:
        # The broker waits for replicas as long as the request says: the connection must wait a little longer.
        timeout_s = 2 * self.settings.request_timeout_ms / _MILLISECONDS
        try:
            answer = asked.connection.receive(asked.pending, timeout_s=timeout_s)
        except BrokerUnavailable as error:
            self._give_up_connections(error)
            self._put_back(asked.batches, str(error))
            return
        produced = {partition.topic_partition: partition for partition in answer.partitions}
        for batch in asked.batches:
            found = produced.get(batch.place)
            if found is None:
                raise DeliveryFailed(f"the broker at {asked.connection.address} did not answer for {batch.place}")
            self._settle(batch, found)

    def _give_up_connections(self, error: BrokerUnavailable) -> None:
        """Put back all that waits for an answer on connections that have ended, before anything more is sent over new ones."""
        waiting, self._unanswered = self._unanswered, deque()
        for asked in waiting:
            if asked.connection.is_closed and not asked.pending.is_answered:
                self._put_back(asked.batches, str(error))
            else:
                self._unanswered.append(asked)

    def _settle(self, batch: QueuedBatch, answer: ProducedPartition) -> None:
        queue = self._queues[batch.place]
        verdict = queue.judge(batch, answer.error_code)
        if verdict is Verdict.DONE:
            self._done(batch)
        elif verdict is Verdict.AGAIN:
            self._put_back([batch], str(kafka_error(answer.error_code, answer.error_message or "")))
        elif verdict is Verdict.SPLIT:
            halves = queue.split(batch)
            self._held_bytes += sum(len(half.content) for half in halves) - len(batch.content)
            self.batch_size = min(self.batch_size, batch.unpacked_bytes // 2)
        else:
            raise self._explain(batch, answer)

    def _done(self, batch: QueuedBatch) -> None:
        self._queues[batch.place].done(batch)
        self._held_bytes -= len(batch.content)

    def _put_back(self, batches: list[QueuedBatch], trouble: str) -> None:
        self._last_trouble = trouble
        attempts = max(batch.attempts for batch in batches)
        pause_ms = min(self.settings.retry_backoff_ms * 2 ** min(attempts, 20), self.settings.retry_backoff_max_ms)
        now = monotonic()
        for batch in batches:
            self._queues[batch.place].put_back(batch, rest_until=now + pause_ms / _MILLISECONDS)
            if batch.attempts > self.settings.retries:
                raise DeliveryFailed(f"{batch.record_count} records for {batch.place} were not written, and no retry is left: {trouble}")
        self._check_deadlines()
        self._find_leaders({batch.place.topic for batch in batches})

    def _find_leaders(self, topics: set[str]) -> None:
        try:
            self._cluster.refresh(topics)
        except BrokerUnavailable as error:
            self._last_trouble = str(error)

    def _leader(self, place: TopicPartition) -> int:
        known = self._cluster.metadata.topics.get(place.topic)
        found = known.partitions.get(place.partition) if known else None
        return found.leader if found else NO_LEADER

    def _check_deadlines(self) -> None:
        now = monotonic()
        for place, queue in self._queues.items():
            if queue.batches and now > queue.batches[0].deadline:
                trouble = self._last_trouble or f"partition {place.partition} has no leader"
                limit = f"{self.settings.option('delivery.timeout.ms')} = {self.settings.delivery_timeout_ms}"
                raise DeliveryFailed(f"records for {place} were not written within {limit}: {trouble}")
        leaderless = {place.topic for place, queue in self._queues.items() if queue.batches and self._leader(place) == NO_LEADER}
        if leaderless:
            self._find_leaders(leaderless)

    def _pause(self) -> None:
        sleep(min(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, 100) / _MILLISECONDS + 0.005)

    def _stamp(self, queue: PartitionQueue, record_count: int) -> ProducerStamp:
        if not self.settings.is_idempotent:
            return NO_PRODUCER
        if self._producer is None:
            self._producer = self._ask_for_id()
        return self._producer._replace(base_sequence=queue.take_sequence(record_count))

    def _ask_for_id(self) -> ProducerStamp:
        fields = {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
        request: MessageRequest[Any] = MessageRequest(ApiKey.INIT_PRODUCER_ID, fields, highest=_NEWEST_INIT_PRODUCER_ID)
        deadline = monotonic() + self.settings.max_block_ms / _MILLISECONDS
        while True:
            error: MillstreamError
            try:
                answer = self._cluster.call(request)
            except BrokerUnavailable as unavailable:
                error = unavailable
            else:
                if not answer.error_code:
                    return ProducerStamp(int(answer.producer_id), int(answer.producer_epoch), NO_SEQUENCE)
                error = kafka_error(int(answer.error_code), "the broker gave no producer id")
            if monotonic() > deadline:
                raise error
            self._pause()

    def _no_topic(self, name: str, trouble: str) -> DeliveryFailed:
        limit = f"{self.settings.option('max.block.ms')} = {self.settings.max_block_ms}"
        if trouble:
            return DeliveryFailed(f"no broker described the topic {name!r} within {limit}: {trouble}")
        return DeliveryFailed(
            f"there is no topic {name!r} at {self.settings.bootstrap_servers}, and the broker did not create it within {limit}: "
            "create it first, or check the name"
        )

    def _explain(self, batch: QueuedBatch, answer: ProducedPartition) -> DeliveryFailed:
        if answer.error_code == MessageTooLarge.code:
            return DeliveryFailed(
                f"a record for {batch.place} is too large for the topic: its batch has {len(batch.content)} bytes. "
                f"Raise max.message.bytes of the topic, or compress ({self.settings.option('compression.type')})"
            )
        if answer.error_code == UnknownTopicOrPartition.code:
            return DeliveryFailed(f"there is no {batch.place} any more: {answer.error_message or 'was the topic deleted?'}")
        reason = kafka_error(answer.error_code, answer.error_message or "")
        return DeliveryFailed(f"{batch.record_count} records for {batch.place} were refused: {type(reason).__name__}, {reason}")
