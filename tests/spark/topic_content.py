"""What is in a topic, written and read with confluent-kafka: the client that rows of Spark are compared with."""

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import NamedTuple

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition

from tests.brokers import Broker

DEADLINE_S = 60.0


class Message(NamedTuple):
    """A message to write."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = 1_700_000_000_000


class Row(NamedTuple):
    """A row as the source gives it, headers included."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...] | None


def write(broker: Broker, topic: str, messages: Iterable[Message], **options: object) -> None:
    """Write the messages in order; `options` are confluent-kafka's, with underscores for dots."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5} | named)
    errors: list[object] = []
    for message in messages:
        producer.produce(
            topic,
            message.value,
            message.key,
            message.partition,
            on_delivery=lambda error, _: errors.append(error) if error else None,
            timestamp=message.timestamp_ms,
            headers=list(message.headers),
        )
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    assert errors == []


def write_numbers(broker: Broker, topic: str, numbers: Iterable[int], *, partition: int = 0) -> None:
    """Write numbers as text, for tests that only count."""
    write(broker, topic, [Message(b"%d" % number, partition=partition, timestamp_ms=1_000 + number) for number in numbers])


def read(broker: Broker, topic: str, *, partitions: int = 1) -> list[Row]:
    """Every message of the topic, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False})
    try:
        ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30) for number in range(partitions)}
        consumer.assign([TopicPartition(topic, number, low) for number, (low, high) in ends.items() if high > low])
        wanted = sum(high - low for low, high in ends.values())
        rows: list[Row] = []
        deadline = monotonic() + DEADLINE_S
        while len(rows) < wanted and monotonic() < deadline:
            for message in consumer.consume(1000, 1):
                assert message.error() is None, message.error()
                kind, time = message.timestamp()
                headers = tuple(message.headers() or ()) or None
                number, offset = message.partition() or 0, message.offset()
                assert offset is not None
                rows.append(
                    Row(message.key(), message.value(), topic, number, offset, time, int(kind == TIMESTAMP_LOG_APPEND_TIME), headers)  # type: ignore[arg-type]  # bytes, as written
                )
        return sorted(rows, key=lambda row: (row.partition, row.offset))
    finally:
        consumer.close()
