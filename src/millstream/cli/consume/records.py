"""The records of some spans, as they come in: polled from librdkafka, without a group."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

from millstream.cli.consume.spans import Spans
from millstream.cli.kafka_client import Cluster, plain
from millstream.cli.record_output import ShownRecord
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

POLL_SECONDS = 0.1
RECORDS_PER_POLL = 1_000
SETTINGS = {
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": "100",
    "fetch.queue.backoff.ms": "10",  # librdkafka would rest a whole second whenever its queue is full
    "allow.auto.create.topics": "false",
}


class Isolation(StrEnum):
    """What is read of transactions."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


@contextmanager
def open_consumer(cluster: Cluster, isolation: Isolation) -> Iterator["Consumer"]:
    """A consumer that is closed in the end."""
    consumer = cluster.consumer({**SETTINGS, "isolation.level": isolation.value})
    try:
        yield consumer
    finally:
        consumer.close()


def records(cluster: Cluster, consumer: "Consumer", spans: Spans) -> Iterator[ShownRecord | None]:
    """Records of the partitions from their starts to their ends (or forever); None after each poll."""
    from confluent_kafka import TopicPartition

    ends = spans.ends
    open_partitions = spans.open_partitions()
    if not open_partitions:
        return
    consumer.assign([TopicPartition(spans.topic, number, spans.starts[number]) for number in open_partitions])
    while open_partitions:
        for message in consumer.consume(RECORDS_PER_POLL, POLL_SECONDS):
            number = message.partition()
            assert number is not None
            if _is_end(cluster, message):
                if ends is not None:
                    open_partitions.discard(number)
                continue
            record = _shown(message)
            if ends is None or record.offset < ends[number]:
                yield record
            if ends is not None and record.offset + 1 >= ends[number]:
                open_partitions.discard(number)
        yield None


def _is_end(cluster: Cluster, message: "Message") -> bool:
    """Whether this is the end of a partition; raises for any other event that is not a record."""
    error = message.error()
    if error is None:
        return False
    if error.name() == "_PARTITION_EOF":
        return True
    raise CommandFailed(f"Reading {message.topic()}-{message.partition()} from {cluster.brokers} failed: {plain(error)}.")


def _shown(message: "Message") -> ShownRecord:
    offset, partition = message.offset(), message.partition()
    assert offset is not None
    assert partition is not None
    return ShownRecord(message.topic() or "", partition, offset, message.timestamp()[1], message.key(), message.value(), _headers(message))


def _headers(message: "Message") -> list[tuple[str, bytes | None]]:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]
