"""confluent-kafka (librdkafka) as a `Client`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.brokers import Broker
from tests.clients.client import FetchLimits, Message, Refused, Start
from tests.waiting import DEADLINE_S, wait_until


class ConfluentWriter:
    """A librdkafka producer."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer

    def write(self, topic: str, messages: Sequence[Message]) -> list[int]:
        """Send all in order and flush."""
        offsets: dict[int, int] = {}
        errors: list[KafkaError] = []
        for index, message in enumerate(messages):

            def delivered(error: Any, done: Any, index: int = index) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    offsets[index] = -1 if done.offset() is None or done.offset() < 0 else done.offset()

            extra: dict[str, Any] = {} if message.timestamp is None else {"timestamp": message.timestamp}
            self.producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=message.partition,
                on_delivery=delivered,
                **extra,
            )
        left = self.producer.flush(DEADLINE_S)
        assert left == 0, f"{left} messages were not delivered"
        if errors:
            raise Refused(errors[0].code(), errors[0].str())
        return [offsets[index] for index in range(len(messages))]


class ConfluentReader:
    """A librdkafka consumer with one assigned partition."""

    def __init__(self, consumer: Consumer, topic: str, partition: int) -> None:
        self.consumer = consumer
        self.topic = topic
        self.partition = partition

    def read(self, count: int) -> list[Message]:
        """Poll until there are so many; an error that is not the end of the partition fails."""
        messages: list[Message] = []
        wait_until(lambda: self._poll_into(messages, count) >= count, f"{count} messages of {self.topic}")
        assert len(messages) == count
        return messages

    def seek(self, offset: int) -> None:
        """Go on from another offset."""
        self.consumer.seek(TopicPartition(self.topic, self.partition, offset))

    def settle(self) -> None:
        """Poll until librdkafka says that it is at the end."""
        wait_until(self._is_at_end, f"end of {self.topic}")

    def _is_at_end(self) -> bool:
        event = self.consumer.poll(0.2)
        error = event.error() if event is not None else None
        return error is not None and error.code() == KafkaError._PARTITION_EOF

    def _poll_into(self, messages: list[Message], count: int) -> int:
        for event in self.consumer.consume(count - len(messages), timeout=0.2):
            error = event.error()
            if error is None:
                messages.append(_to_message(event))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise Refused(error.code(), error.str())
        return len(messages)


class ConfluentClient:
    """librdkafka through confluent-kafka."""

    name = "confluent-kafka"
    codecs = frozenset({"none", "gzip", "snappy", "lz4", "zstd"})

    @contextmanager
    def writer(
        self, broker: Broker, *, codec: str = "none", acks: int = -1, idempotent: bool = False, max_request_bytes: int = 1 << 20
    ) -> Iterator[ConfluentWriter]:
        """A producer with a linger long enough to make batches."""
        settings: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": codec,
            "acks": acks,
            "enable.idempotence": idempotent,
            "linger.ms": 20,
            "message.max.bytes": max_request_bytes,
            "message.timeout.ms": int(DEADLINE_S * 1000),
            "allow.auto.create.topics": True,
        }
        yield ConfluentWriter(Producer(settings))

    @contextmanager
    def reader(
        self, broker: Broker, topic: str, *, start: Start = "earliest", partition: int = 0, max_bytes: int = 1 << 20
    ) -> Iterator[ConfluentReader]:
        """A consumer in a group of its own name, which it never joins."""
        consumer = Consumer(consumer_settings(broker) | {"max.partition.fetch.bytes": max_bytes})
        offset = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}[start] if isinstance(start, str) else start
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            yield ConfluentReader(consumer, topic, partition)
        finally:
            consumer.close()

    def read_topic(self, broker: Broker, topic: str, *, partitions: int, count: int, limits: FetchLimits) -> list[Message]:
        """One consumer with all partitions; librdkafka wants no message to be larger than what it fetches."""
        settings = limits.named("fetch.max.bytes", "max.partition.fetch.bytes")
        if limits.max_bytes is not None:
            settings["message.max.bytes"] = limits.max_bytes
        consumer = Consumer(consumer_settings(broker) | settings)
        try:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
            return ConfluentReader(consumer, topic, 0).read(count)
        finally:
            consumer.close()

    def offset_for_time(self, broker: Broker, topic: str, timestamp: int) -> int | None:
        """offsets_for_times; librdkafka answers the end when there is nothing."""
        consumer = Consumer(consumer_settings(broker))
        try:
            found = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=DEADLINE_S)[0]
        finally:
            consumer.close()
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else None

    def ends(self, broker: Broker, topic: str) -> tuple[int, int]:
        """get_watermark_offsets, asked from the broker."""
        consumer = Consumer(consumer_settings(broker))
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S, cached=False)
            return low, high
        finally:
            consumer.close()


def consumer_settings(broker: Broker) -> dict[str, Any]:
    """A consumer that assigns for itself, commits nothing and fails on an offset out of range."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "never-joined",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
        "check.crcs": True,
    }


def _to_message(event: Any) -> Message:
    kind, timestamp = event.timestamp()
    return Message(
        value=event.value(),
        key=event.key(),
        headers=tuple(event.headers() or ()),
        timestamp=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        partition=event.partition(),
        offset=event.offset(),
    )
