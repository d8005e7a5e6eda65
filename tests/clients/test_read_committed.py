"""Readers of committed data beside transactional producers: what they are shown, where they stop, and that they are called in time."""

import random
from collections.abc import Iterator
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.brokers import Broker
from tests.connection import FETCH, Connection
from tests.topics import create_topic, fetch_fields
from tests.transactional_wire import READ_COMMITTED, Conversation, Sent, await_coordinator

NEW_END, IMPLICIT = 5, 12
LONG_WAIT_MS = 120_000
LARGE = 150_000
STEPS = 90


@pytest.fixture
def talk(broker: Broker, topic: str) -> Iterator[Conversation]:
    await_coordinator(broker, topic)
    with broker.connect(timeout_s=LONG_WAIT_MS / 2000) as connection:
        yield Conversation(connection, topic)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_fetch_of_committed_data_is_answered_when_the_marker_comes(broker: Broker, talk: Conversation, is_commit: bool) -> None:
    """Its time would be up after the test: it ends because of the marker."""
    producer = talk.begin(talk.topic)
    talk.produce("open", talk.topic, Sent(0, *producer, 0), version=IMPLICIT)
    talk.produce("plain", None, Sent(0, flags=0), version=IMPLICIT)
    with broker.connect(timeout_s=LONG_WAIT_MS / 2000) as reader:
        reader.send(FETCH, 11, waiting_fetch(talk.topic, 0))
        talk.end(talk.topic, producer, version=NEW_END, is_commit=is_commit)
        answer = received(reader)
    assert (answer.error_code, answer.last_stable_offset) == (0, 3)
    assert [one.first_offset for one in answer.aborted_transactions] == ([] if is_commit else [0])


def waiting_fetch(topic: str, offset: int) -> dict[str, object]:
    return {**fetch_fields(topic, offset, max_wait_ms=LONG_WAIT_MS, min_bytes=1), "isolation_level": READ_COMMITTED, "session_epoch": -1}


def received(connection: Connection) -> Any:
    [partition] = connection.receive(FETCH, 11)[1].responses[0].partitions
    return partition


def transact(broker: Broker, topic: str) -> tuple[list[bytes], list[bytes]]:
    """Interleaved transactions of three producers over several segments; the values that were committed, in order, and all of them."""
    rng = random.Random(6)
    address = broker.bootstrap_servers
    names = [f"{topic}-{number}" for number in range(3)]
    producers = [Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 0}) for name in names]
    for producer in producers:
        producer.init_transactions(60)
    open_since: dict[Producer, list[bytes]] = {}
    ends: dict[bytes, bool] = {}
    written = []
    for step in range(STEPS):
        producer = rng.choice(producers)
        if producer in open_since and rng.random() < 0.35:
            is_commit = rng.random() < 0.5
            (producer.commit_transaction if is_commit else producer.abort_transaction)(60)
            ends.update(dict.fromkeys(open_since.pop(producer), is_commit))
            continue
        if producer not in open_since:
            producer.begin_transaction()
            open_since[producer] = []
        value = b"%d:" % step + bytes(LARGE if rng.random() < 0.3 else 10)
        producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0
        open_since[producer].append(value)
        written.append(value)
    for producer, values in open_since.items():
        producer.commit_transaction(60)
        ends.update(dict.fromkeys(values, True))
    return [value for value in written if ends[value]], written


def read(broker: Broker, topic: str, *, isolation: str, count: int, offset: int = 0) -> list[tuple[int, bytes]]:
    """Offset and value of so many messages from an offset on."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "isolation.level": isolation, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), 60)
        assert messages, f"{len(found)} of {count} messages"
        for message in messages:
            offset_and_value = message.offset(), message.value()
            assert message.error() is None
            found.append(cast("tuple[int, bytes]", offset_and_value))
    consumer.close()
    return found


def test_readers_are_shown_what_was_committed_in_its_order(broker: Broker) -> None:
    topic = create_topic(broker, configs={"segment.bytes": "1048576"})
    committed, written = transact(broker, topic)
    assert [value for _, value in read(broker, topic, isolation="read_uncommitted", count=len(written))] == written
    found = read(broker, topic, isolation="read_committed", count=len(committed))
    assert [value for _, value in found] == committed
    assert len(list(broker.partition_directory(topic).glob("*.txnindex"))) > 1
    for offset in range(5, found[-1][0], 17):
        behind = [one for one in found if one[0] >= offset]
        assert read(broker, topic, isolation="read_committed", count=len(behind), offset=offset) == behind
