"""kafka-python as a `Client`."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.brokers import Broker
from tests.clients.client import FetchLimits, Message, Refused, Start
from tests.waiting import DEADLINE_S, wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas with importlib.resources.read_text
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.codec import has_lz4, has_snappy, has_zstd

_CODECS = {"none": True, "gzip": True, "snappy": has_snappy(), "lz4": has_lz4(), "zstd": has_zstd()}


class KafkaPythonWriter:
    """A KafkaProducer."""

    def __init__(self, producer: Any) -> None:
        self.producer = producer

    def write(self, topic: str, messages: Sequence[Message]) -> list[int]:
        """Send all in order and wait for each."""
        futures = [
            self.producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=message.partition,
                timestamp_ms=message.timestamp,
            )
            for message in messages
        ]
        self.producer.flush(timeout=DEADLINE_S)
        try:
            return [future.get(timeout=DEADLINE_S).offset for future in futures]
        except kafka_errors.BrokerResponseError as error:
            raise Refused(error.errno, str(error)) from error


class KafkaPythonReader:
    """A KafkaConsumer with one assigned partition."""

    def __init__(self, consumer: Any, partition: Any) -> None:
        self.consumer = consumer
        self.partition = partition

    def read(self, count: int) -> list[Message]:
        """Poll until there are so many."""
        messages: list[Message] = []
        wait_until(lambda: self._poll_into(messages, count) >= count, f"{count} messages of {self.partition}")
        return messages

    def seek(self, offset: int) -> None:
        """Go on from another offset."""
        self.consumer.seek(self.partition, offset)

    def settle(self) -> None:
        """Ask for the position, which fixes it."""
        assert self.consumer.position(self.partition) is not None

    def _poll_into(self, messages: list[Message], count: int) -> int:
        try:
            polled = self.consumer.poll(timeout_ms=200, max_records=count - len(messages))
        except kafka_errors.OffsetOutOfRangeError as error:
            raise Refused(error.errno, str(error)) from error
        for records in polled.values():
            messages += [to_message(record) for record in records]
        return len(messages)


class KafkaPythonClient:
    """kafka-python."""

    name = "kafka-python"
    codecs = frozenset(codec for codec, is_there in _CODECS.items() if is_there)

    @contextmanager
    def writer(
        self, broker: Broker, *, codec: str = "none", acks: int = -1, idempotent: bool = False, max_request_bytes: int = 1 << 20
    ) -> Iterator[KafkaPythonWriter]:
        """A producer with a linger long enough to make batches."""
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == -1 else acks,
            enable_idempotence=idempotent,
            linger_ms=20,
            max_request_size=max_request_bytes,
        )
        try:
            yield KafkaPythonWriter(producer)
        finally:
            producer.close(timeout=DEADLINE_S)

    @contextmanager
    def reader(
        self, broker: Broker, topic: str, *, start: Start = "earliest", partition: int = 0, max_bytes: int = 1 << 20
    ) -> Iterator[KafkaPythonReader]:
        """A consumer without a group."""
        consumer = _consumer(broker, max_partition_fetch_bytes=max_bytes, check_crcs=True, fetch_max_wait_ms=100)
        assigned = TopicPartition(topic, partition)
        try:
            consumer.assign([assigned])
            if start == "earliest":
                consumer.seek_to_beginning(assigned)
            elif start == "latest":
                consumer.seek_to_end(assigned)
            else:
                consumer.seek(assigned, start)
            yield KafkaPythonReader(consumer, assigned)
        finally:
            consumer.close()

    def read_topic(self, broker: Broker, topic: str, *, partitions: int, count: int, limits: FetchLimits) -> list[Message]:
        """One consumer with all partitions."""
        consumer = _consumer(broker, **limits.named("fetch_max_bytes", "max_partition_fetch_bytes"))
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        try:
            consumer.assign(assigned)
            consumer.seek_to_beginning(*assigned)
            return KafkaPythonReader(consumer, topic).read(count)
        finally:
            consumer.close()

    def offset_for_time(self, broker: Broker, topic: str, timestamp: int) -> int | None:
        """offsets_for_times."""
        consumer = _consumer(broker)
        try:
            found = consumer.offsets_for_times({TopicPartition(topic, 0): timestamp})[TopicPartition(topic, 0)]
            return None if found is None else int(found.offset)
        finally:
            consumer.close()

    def ends(self, broker: Broker, topic: str) -> tuple[int, int]:
        """beginning_offsets and end_offsets."""
        consumer = _consumer(broker)
        partition = TopicPartition(topic, 0)
        try:
            return consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]
        finally:
            consumer.close()


def _consumer(broker: Broker, **settings: object) -> Any:
    return KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=None, enable_auto_commit=False, auto_offset_reset="none", **settings
    )


def to_message(record: Any) -> Message:
    """A ConsumerRecord of kafka-python or aiokafka as a `Message`."""
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )
