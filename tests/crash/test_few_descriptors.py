"""A broker with few file descriptors: idle connections do not take those that files and the journal need, and no disk is called dead."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.connection import CREATE_TOPICS
from tests.topics import create_topic, list_offset, produce_values
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="how Millstream spends descriptors")

VALUES = [f"{number}".encode() * 100 for number in range(60)]


class LimitedBroker(MillstreamBroker):
    """`millstream serve` after `ulimit -n`."""

    def __init__(self, directory: Path, limit: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, {"group.initial.rebalance.delay.ms": 0, "log.index.interval.bytes": 1})
        self._limit = limit

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {self._limit}; exec "$@"', "sh", *super().command()]

    def descriptors(self) -> int:
        """How many are open now."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[list[LimitedBroker]]:
    """Put a broker in, and it is killed when the test ends."""
    started: list[LimitedBroker] = []
    yield started
    for broker in started:
        broker.kill()


def connect_until_refused(broker: LimitedBroker, stack: contextlib.ExitStack, *, count: int) -> None:
    """Open so many idle connections that the last of them are refused."""
    idle = [stack.enter_context(socket.create_connection(broker.address, timeout=60)) for _ in range(count)]
    with contextlib.suppress(ConnectionResetError):
        assert idle[-1].recv(1) == b""


def consume(consumer: Consumer, count: int) -> None:
    """Wait for so many records."""
    consumed = 0

    def has_consumed() -> bool:
        nonlocal consumed
        consumed += len([message for message in consumer.consume(100, 0.1) if message.error() is None])
        return consumed >= count

    wait_until(has_consumed, f"{count} records")


def test_idle_connections_leave_enough_to_produce_and_to_consume_in_a_group(tmp_path: Path, start: list[LimitedBroker]) -> None:
    broker = LimitedBroker(tmp_path / "broker", 300)
    start.append(broker)
    broker.start()
    topic = create_topic(broker, partitions=4)
    for partition in range(4):
        produce_values(broker, topic, VALUES, partition=partition, batch_size=1)
    # So that indexes are opened when they are first needed, among the idle connections.
    broker.restart()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(0.1), "the first record")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"first", partition=0)
    assert producer.flush(30) == 0
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(broker.connect())
        connect_until_refused(broker, stack, count=400)
        assert 60 < broker.descriptors() < 300 - 64
        for partition in range(4):
            for value in VALUES:
                producer.produce(topic, value, partition=partition)
            assert producer.flush(30) == 0
            assert list_offset(held, topic, 0, partition=partition).offset == 0
        entry = {"name": "late", "num_partitions": 8, "replication_factor": 1}
        assert held.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000}).topics[0].error_code == 0
        consume(consumer, 2 * 4 * len(VALUES))
        assert consumer.commit(asynchronous=False)
    consumer.close()
    assert broker.is_running
    assert broker.output.count("ulimit -n") == 1
    assert "offline" not in broker.output
    produce_values(broker, topic, [b"there is room again"])
    assert broker.stop() == 0


def test_partitions_fit_into_twice_as_many_descriptors_with_groups_beside_them(tmp_path: Path, start: list[LimitedBroker]) -> None:
    broker = LimitedBroker(tmp_path / "broker", 1000)
    start.append(broker)
    broker.start()
    topic = create_topic(broker, partitions=450)
    before = broker.descriptors()
    assert before < 100, "a partition that nobody uses costs nothing"
    for partition in range(0, 450, 10):
        produce_values(broker, topic, [b"value"], partition=partition)
    assert broker.descriptors() <= before + 45 + 2, "and one that was written to costs one"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    consume(consumer, 45)
    consumer.close()
    entry = {"name": "too-many", "num_partitions": 400, "replication_factor": 1}
    with broker.connect() as connection:
        refusal = connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000}).topics[0]
    assert "ulimit -n" in refusal.error_message
    broker.restart()
    assert broker.descriptors() < 100
