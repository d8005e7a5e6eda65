"""The topic `_schemas` as the registry uses it: every record read in order, from the first on, and records appended and read back.

Uses confluent-kafka, whose clients live in threads of their own; whatever they report comes to the event loop as a callback, so the
rest of the registry knows no threads.

    reader thread   consume ──▶ `on_record(offset, record, term)` on the loop, in the order of the log
    writer thread   delivery reports ──▶ futures of the loop

`append` returns when the records are in the log (acks=all, idempotent) and the reader has passed them: then the state has them too. It
raises when that did not come about within `WRITE_SECONDS`; the records may still appear later, so the caller must not go on as if they
would not.

A broker that is away is waited for, without end: librdkafka connects again by itself. A log that lost records which were read (the topic
was deleted and made anew) cannot be repaired here: `on_failure`.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined] # they do not list re-exports
from confluent_kafka.cimpl import NewTopic

from millstream.client.connect_reason import ConnectReason
from millstream.coordination.topic_names import SCHEMAS_TOPIC
from millstream.registry.errors import SchemaTooLarge, StoreFailed, StoreTimedOut
from millstream.registry.model.records import TERM_HEADER, LogRecord, UnreadableRecord, decode_record, encode_key, encode_value

logger = logging.getLogger(__name__)

WRITE_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 10.0
TROUBLE_SECONDS: Final = 1.5
"""How long a request waits for a log of which is known why it cannot be read: longer than it takes to know it, and than most restarts."""
POLL_SECONDS: Final = 0.5
RECORDS_PER_POLL: Final = 1_000
PAUSE_SECONDS: Final = 0.2
MAX_REPLICAS: Final = 3
FACTOR: Final = "offsets.topic.replication.factor"
SHORTEST_WAIT_SECONDS: Final = 1.0
"""How long the first question to the brokers waits for its answer, so that it is soon said when there is none; each further one twice as
long, up to `REQUEST_SECONDS`."""
AGAIN_SECONDS: Final = 60.0
"""After so long what is still wrong is worth another line."""
_CONNECTION_ERRORS: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT"})

OnRecord = Callable[[int, LogRecord, str | None], None]


class SchemaLog:
    """Reader and writer of the topic; made and used on the event loop."""

    def __init__(
        self,
        client_options: Mapping[str, str],
        *,
        topic: str = SCHEMAS_TOPIC,
        on_record: OnRecord,
        on_failure: Callable[[str], None],
    ) -> None:
        own = {"client.id": "millstream-registry", "log_level": 0, "reconnect.backoff.max.ms": 1_000}
        self._options: dict[str, Any] = {**own, **client_options, "error_cb": self._complaint}
        self._topic = topic
        self._on_record = on_record
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._read, name="schemas-reader", daemon=True)]
        self._producer: Producer | None = None
        self._is_caught_up = asyncio.Event()
        self._next_offset = 0
        self._end_offset = 0
        """Where the log ended when reading began; its last records may have been compacted away, then the end comes as an event."""
        self._passed: list[tuple[int, asyncio.Future[None]]] = []
        self._brokers = client_options.get("bootstrap.servers", "")
        self._connect_reason = ConnectReason()
        self._said_at = 0.0
        """When it was last said why; 0 if nothing was wrong."""
        self.cluster_id = ""
        self.reason = "the topic is being read"
        """Why the log cannot be used at the moment, for who asks in vain."""

    @property
    def is_caught_up(self) -> bool:
        """Whether the log has been read to its end once."""
        return self._is_caught_up.is_set()

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    async def stop(self) -> None:
        """End the threads."""
        self._stopping.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    async def until_caught_up(self) -> None:
        """Wait until the log has been read to the end once, however long that takes."""
        await self._is_caught_up.wait()

    async def caught_up(self) -> None:
        """The same for a request, which is answered that it cannot be done after a while; soon, if it is known why."""
        for _ in range(round(REQUEST_SECONDS / TROUBLE_SECONDS)):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_caught_up.wait(), TROUBLE_SECONDS)
                return
            if self._said_at:
                break
        raise StoreFailed(f"The registry has not read its log yet: {self.reason}. It goes on trying.")

    async def passed(self, offset: int, timeout_s: float = WRITE_SECONDS) -> None:
        """Wait until the record at `offset` has been read."""
        if offset < self._next_offset:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._passed.append((offset, future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            raise StoreTimedOut(f"The log did not give back what was written within {timeout_s:g} s ({self.reason}).") from None
        finally:
            self._passed = [one for one in self._passed if one[1] is not future]

    async def append(self, records: Sequence[LogRecord], *, term: str) -> int:
        """Append the records in order, as one writer; returns the offset of the last when all have been read back."""
        producer = self._writer()
        delivered = [self._loop.create_future() for _ in records]
        headers: list[tuple[str, str | bytes | None]] = [(TERM_HEADER, term.encode())]
        for record, future in zip(records, delivered, strict=True):
            key, value = encode_key(record.key), encode_value(record.value)
            try:
                producer.produce(self._topic, value, key, 0, headers=headers, on_delivery=partial(self._report, future))
            except (KafkaException, BufferError) as error:
                raise _write_error(error.args[0] if error.args else error) from error
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                offsets: list[int] = await asyncio.gather(*delivered)
        except TimeoutError:
            raise StoreTimedOut(f"The log did not take what was written within {WRITE_SECONDS:g} s ({self.reason}).") from None
        await self.passed(offsets[-1])
        return offsets[-1]

    # -- in the loop

    def _writer(self) -> Producer:
        if self._producer is None:
            settings = {"enable.idempotence": True, "acks": "all", "linger.ms": 0, "message.timeout.ms": int(WRITE_SECONDS * 900)}
            self._producer = Producer({**self._options, **settings})
            thread = threading.Thread(target=self._serve_deliveries, name="schemas-writer", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self._producer

    def _take(self, messages: list[tuple[int, bytes | None, bytes | None, str | None]]) -> None:
        for offset, key, value, term in messages:
            self._next_offset = offset + 1
            try:
                self._on_record(offset, decode_record(key, value), term)
            except (UnreadableRecord, KeyError, TypeError, ValueError) as error:
                logger.warning("record %d of %s makes no sense and is ignored: %s", offset, self._topic, error)
        if self._next_offset >= self._end_offset:
            self._reached_end()
        for offset, future in self._passed:
            if offset < self._next_offset and not future.done():
                future.set_result(None)

    def _expect_end(self, end_offset: int) -> None:
        self._end_offset = end_offset
        if self._next_offset >= end_offset:
            self._reached_end()

    def _reached_end(self) -> None:
        if not self._is_caught_up.is_set():
            self._is_caught_up.set()
            logger.info("%s has been read up to offset %d", self._topic, self._next_offset)

    def _settle(self, future: "asyncio.Future[int]", error: Exception | None, offset: int) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(offset)
        else:
            future.set_exception(error)

    def _say(self, reason: str) -> None:
        now = time.monotonic()
        if reason != self.reason or now - self._said_at > AGAIN_SECONDS:
            self.reason, self._said_at = reason, now
            logger.warning("%s cannot be read or written for now: %s; trying again all the time", self._topic, reason)

    # -- in threads

    def _to_loop(self, callback: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop has ended, and nothing waits any more.
            self._stopping.set()

    def _report(self, future: "asyncio.Future[int]", error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        self._to_loop(self._settle, future, None if error is None else _write_error(error), -1 if offset is None else offset)

    def _serve_deliveries(self) -> None:
        assert self._producer is not None
        while not self._stopping.is_set():
            self._producer.poll(POLL_SECONDS)
        self._producer.purge()
        self._producer.flush(0)

    def _complaint(self, error: KafkaError) -> None:
        self._connect_reason.note(error)
        self._to_loop(self._say, self._sentence(error))

    def _sentence(self, error: KafkaError) -> str:
        """The error in words that stay the same as long as its cause does: librdkafka has many for a broker that is away."""
        if error.name() in _CONNECTION_ERRORS:
            return f"no broker answers at {self._brokers} ({self._connect_reason.text or 'no answer'})"
        return _plain(error)

    def _read(self) -> None:
        settings = {
            "group.id": "millstream-registry",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "fetch.wait.max.ms": 500,
            "fetch.queue.backoff.ms": 10,
        }
        self._await_topic()
        consumer = Consumer({**self._options, **settings})
        try:
            while not self._stopping.is_set() and not self._begin(consumer):
                self._stopping.wait(PAUSE_SECONDS)
            while not self._stopping.is_set():
                first = consumer.poll(POLL_SECONDS)
                if first is not None:
                    # `consume` waits until it has all that it was asked for, so it is asked only for what is there.
                    self._hand_over([first, *consumer.consume(RECORDS_PER_POLL, 0)])
        finally:
            consumer.close()

    def _await_topic(self) -> None:
        """Wait for the brokers and see that there is a topic and that it is fit."""
        admin = AdminClient(self._options)
        patience_s = SHORTEST_WAIT_SECONDS
        while not self._stopping.is_set():
            try:
                reason = self._prepared_topic(admin, patience_s)
            except KafkaException as exception:
                admin.poll(0)  # calls back with what is wrong with the connections
                self._to_loop(self._say, self._sentence(exception.args[0]))
                patience_s = min(patience_s * 2, REQUEST_SECONDS)
                self._stopping.wait(PAUSE_SECONDS)
                continue
            if reason is not None:
                self._to_loop(self._on_failure, reason)
                self._stopping.set()
            return

    def _begin(self, consumer: Consumer) -> bool:
        """Begin at the first record; False if the broker does not answer."""
        place = TopicPartition(self._topic, 0, OFFSET_BEGINNING)
        try:
            _, end_offset = consumer.get_watermark_offsets(place, timeout=REQUEST_SECONDS)
            consumer.assign([place])
        except KafkaException as exception:
            self._to_loop(self._say, self._sentence(exception.args[0]))
            return False
        self._to_loop(self._expect_end, end_offset)
        return True

    def _prepared_topic(self, admin: AdminClient, patience_s: float) -> str | None:
        """Create the topic if it is not there; returns why it is not fit for schemas, if so."""
        metadata = admin.list_topics(timeout=patience_s)
        self.cluster_id = str(metadata.cluster_id)
        if self._topic not in metadata.topics:
            _create(admin, self._topic, replicas=min(len(metadata.brokers), _most_replicas(admin, min(metadata.brokers, default=0))))
            return None
        return _unfit(admin, self._topic, partitions=len(metadata.topics[self._topic].partitions))

    def _hand_over(self, messages: Iterable[Message]) -> None:
        records: list[tuple[int, bytes | None, bytes | None, str | None]] = []
        is_end = False
        for message in messages:
            error = message.error()
            if error is None:
                offset = message.offset()
                assert offset is not None
                records.append((offset, _bytes(message.key()), _bytes(message.value()), _term(message)))
            elif error.name() == "_PARTITION_EOF":
                is_end = True
            elif error.name() == "_AUTO_OFFSET_RESET":
                self._to_loop(self._on_failure, f"the topic {self._topic} lost records that were read; was it deleted and made anew?")
            else:
                self._to_loop(self._say, self._sentence(error))
        if records:
            self._to_loop(self._take, records)
        if is_end:
            self._to_loop(self._reached_end)


def _create(admin: AdminClient, topic: str, *, replicas: int) -> None:
    new = NewTopic(topic, 1, max(replicas, 1), config={"cleanup.policy": "compact"})
    try:
        admin.create_topics([new], operation_timeout=REQUEST_SECONDS)[topic].result()
    except KafkaException as exception:
        # Another instance may have been faster.
        if exception.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
    deadline = time.monotonic() + REQUEST_SECONDS
    while topic not in admin.list_topics(timeout=REQUEST_SECONDS).topics and time.monotonic() < deadline:
        time.sleep(0.01)


def _most_replicas(admin: AdminClient, broker_id: int) -> int:
    """As many as the cluster gives to its own topics, at most three: brokers that share a machine (`serve --processes`) say one."""
    resource = ConfigResource(ResourceType.BROKER, str(broker_id))
    try:
        factor = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result()[FACTOR].value or ""
    except (KafkaException, KeyError):  # who may not ask, or that broker is just going away
        factor = ""
    return min(MAX_REPLICAS, int(factor)) if factor.isdigit() else MAX_REPLICAS


def _unfit(admin: AdminClient, topic: str, *, partitions: int) -> str | None:
    """Why schemas would not be safe in this topic."""
    if partitions != 1:
        return f"the topic {topic} must have one partition and has {partitions}: the order of its records decides"
    resource = ConfigResource(ResourceType.TOPIC, topic)
    policy = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result()["cleanup.policy"].value
    if policy != "compact":
        return f"the topic {topic} must have cleanup.policy=compact and has {policy}: schemas would be deleted when they are old"
    return None


def _term(message: Message) -> str | None:
    headers = message.headers()
    if headers is None:
        return None
    for name, value in headers.items() if isinstance(headers, dict) else headers:
        if name == TERM_HEADER and value is not None:
            return value if isinstance(value, str) else value.decode(errors="replace")
    return None


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _write_error(error: object) -> Exception:
    if isinstance(error, KafkaError):
        if error.name() in ("MSG_SIZE_TOO_LARGE", "_MSG_SIZE_TOO_LARGE"):
            return SchemaTooLarge("Register operation failed because schema is too large: the topic _schemas does not take it.")
        if error.name() in ("_MSG_TIMED_OUT", "REQUEST_TIMED_OUT"):
            return StoreTimedOut("The log did not take what was written in time; whether it will is not known.")
        return StoreFailed(f"The log could not be written: {_plain(error)}.")
    return StoreFailed(f"The log could not be written: {error}.")


def _plain(error: KafkaError) -> str:
    return error.str().removeprefix("Broker: ").removeprefix("Local: ").rstrip(".")
