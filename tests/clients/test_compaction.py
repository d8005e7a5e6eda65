"""Compacted topics, as clients see them: old values vanish, the latest stay, offsets never change, and nobody is disturbed."""

import random
from collections.abc import Iterator

import pytest

from tests.batches import split_batches
from tests.brokers import Broker, StartBroker
from tests.clients.client import Client, Message, Reader
from tests.clients.confluent_client import ConfluentClient
from tests.connection import Connection
from tests.topics import EARLIEST, LATEST, create_topic, fetch, list_offset
from tests.waiting import wait_until

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": 1 << 20, "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": 0}
KEYS = 50
UPDATES = 4000
"""Of a kilobyte each: some segments of one megabyte, the smallest that Kafka allows."""


@pytest.fixture
def compacting(start_broker: StartBroker) -> Broker:
    """A broker that looks for something to compact all the time."""
    return start_broker(log_cleaner_backoff_ms=50)


def updates(count: int, *, first: int = 0) -> list[Message]:
    return [Message(b"%08d" % number * 125, key=b"key%d" % (number % KEYS)) for number in range(first, first + count)]


def first_offset_left(connection: Connection, topic: str) -> int:
    """Where the first batch is that has records."""
    offset = 0
    while True:
        answer = fetch(connection, topic, offset)
        for header, _ in split_batches(answer.records or b""):
            if header.record_count:
                return header.base_offset
            offset = header.base_offset + header.last_offset_delta + 1


def wait_for_compaction(broker: Broker, topic: str, *, beyond: int) -> None:
    with broker.connect() as connection:
        wait_until(lambda: first_offset_left(connection, topic) > beyond, f"the compaction of {topic} beyond {beyond}")


def read_to_the_end(reader: Reader) -> Iterator[Message]:
    """Messages up to the one with the key `end`."""
    while True:
        for message in reader.read(1):
            yield message
            if message.key == b"end":
                return


def test_old_values_vanish_while_a_consumer_reads(compacting: Broker, client: Client) -> None:
    topic = create_topic(compacting, configs=COMPACTED)
    with client.writer(compacting) as writer, client.reader(compacting, topic) as early:
        messages = updates(UPDATES)
        assert writer.write(topic, messages[:1500]) == list(range(1500))
        seen = early.read(200)
        writer.write(topic, [*messages[1500:], Message(b"", key=b"end")])
        wait_for_compaction(compacting, topic, beyond=1000)
        seen += read_to_the_end(early)
    assert [message.offset for message in seen] == sorted({message.offset for message in seen})
    with client.reader(compacting, topic) as late:
        left = list(read_to_the_end(late))
    assert len(left) < UPDATES - 1000
    latest = {message.key: message.value for message in messages} | {b"end": b""}
    for found in (seen, left):
        assert {message.key: message.value for message in found} == latest
        assert all(message.value == messages[message.offset].value for message in found if message.key != b"end")
    with compacting.connect() as connection:
        assert list_offset(connection, topic, EARLIEST).offset == 0
        assert list_offset(connection, topic, LATEST).offset == UPDATES + 1


def test_compressed_batches_are_compacted_as_well(compacting: Broker, client: Client) -> None:
    topic = create_topic(compacting, configs=COMPACTED)
    # Noise, or else there would be nothing left to fill segments with.
    noise = random.Random(7)
    messages = [Message(noise.randbytes(1000), key=b"key%d" % (number % KEYS)) for number in range(UPDATES)]
    with client.writer(compacting, codec="zstd" if "zstd" in client.codecs else "gzip") as writer:
        writer.write(topic, [*messages, Message(b"", key=b"end")])
    wait_for_compaction(compacting, topic, beyond=1000)
    with client.reader(compacting, topic) as reader:
        left = list(read_to_the_end(reader))
    assert len(left) < UPDATES - 1000
    assert {message.key: message.value for message in left} == {message.key: message.value for message in messages} | {b"end": b""}


def test_a_deleted_key_is_gone_in_the_end(compacting: Broker, client: Client) -> None:
    topic = create_topic(compacting, configs=COMPACTED)
    with client.writer(compacting) as writer:
        writer.write(topic, [Message(b"secret", key=b"gone"), Message(None, key=b"gone")])
        number = 0

        def is_gone() -> bool:
            nonlocal number
            writer.write(topic, [*updates(1200, first=number), Message(b"", key=b"end")])
            number += 1200
            with client.reader(compacting, topic) as reader:
                first = reader.read(1)[0]
            return first.key != b"gone"

        wait_until(is_gone, "the end of a deleted key", deadline_s=60)


def test_an_idempotent_producer_goes_on_after_its_records_were_compacted(compacting: Broker) -> None:
    topic = create_topic(compacting, configs=COMPACTED)
    client = ConfluentClient()
    with client.writer(compacting, idempotent=True) as first, client.writer(compacting) as second:
        first.write(topic, [Message(b"from the first", key=b"key0")])
        second.write(topic, updates(UPDATES))
        wait_for_compaction(compacting, topic, beyond=1000)
        compacting.restart()
        assert first.write(topic, [Message(b"again", key=b"mine")]) == [UPDATES + 1]
