"""The transactional producers of other clients: commit, abort, offsets, fencing; Java's copier; and what Kafka's own tool says of them."""

from collections.abc import Callable, Iterator

import pytest

from millstream import SimpleConsumer
from tests.brokers import Broker
from tests.clients.transactional_producers import PRODUCERS, ConfluentProducer, TransactionalProducer
from tests.group_offsets import fetch
from tests.java import run_tool
from tests.topics import create_topic, fresh_name, produce_values
from tests.waiting import wait_until

Open = Callable[[str], TransactionalProducer]
COPIED = 300


@pytest.fixture(params=PRODUCERS)
def open_producer(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Open]:
    """Opens producers of one client, with a transactional id."""
    opened: list[TransactionalProducer] = []

    def open_one(transactional_id: str) -> TransactionalProducer:
        made = PRODUCERS[request.param](broker.bootstrap_servers, transactional_id)
        opened.append(made)
        return made

    yield open_one
    for one in opened:
        one.close()


def committed(broker: Broker, topic: str) -> list[bytes | None]:
    with SimpleConsumer(broker.bootstrap_servers) as simple:
        return [message.payload for message in simple.fetch(topic, 0, 0, max_wait_ms=1)]


def await_committed(broker: Broker, topic: str, values: list[bytes]) -> None:
    """A commit is answered when it is decided; the markers follow."""
    wait_until(lambda: committed(broker, topic) == values, f"{values} in {topic}")


def test_what_is_committed_is_there_and_what_is_aborted_is_not(broker: Broker, topic: str, open_producer: Open) -> None:
    other = create_topic(broker)
    producer = open_producer(fresh_name("id"))
    for number, is_commit in enumerate([True, False, True, False, True]):
        producer.begin()
        producer.send(topic, b"%d" % number, b"%d again" % number)
        producer.send(other, b"%d" % number)
        producer.end(is_commit=is_commit)
    await_committed(broker, topic, [b"0", b"0 again", b"2", b"2 again", b"4", b"4 again"])
    await_committed(broker, other, [b"0", b"2", b"4"])


def test_nothing_is_there_before_the_commit(broker: Broker, topic: str, open_producer: Open) -> None:
    producer = open_producer(fresh_name("id"))
    producer.begin()
    producer.send(topic, b"one")
    produce_values(broker, topic, [b"of nobody's transaction"])
    assert committed(broker, topic) == []
    producer.end(is_commit=True)
    await_committed(broker, topic, [b"one", b"of nobody's transaction"])


def test_offsets_are_committed_with_the_transaction(broker: Broker, topic: str, open_producer: Open) -> None:
    group, producer = fresh_name("group"), open_producer(fresh_name("id"))
    for offset, is_commit in [(5, True), (9, False)]:
        producer.begin()
        producer.send(topic, b"%d" % offset)
        producer.send_offset(group, topic, offset)
        producer.end(is_commit=is_commit)
    await_committed(broker, topic, [b"5"])
    with broker.connect() as connection:
        wait_until(lambda: fetch(connection, group, topic) == (0, 5), "the offset")


def test_the_second_producer_of_an_id_aborts_and_fences_the_first(broker: Broker, topic: str, open_producer: Open) -> None:
    name = fresh_name("id")
    first = open_producer(name)
    first.begin()
    first.send(topic, b"of the zombie")
    second = open_producer(name)
    second.begin()
    second.send(topic, b"one")
    second.end(is_commit=True)
    await_committed(broker, topic, [b"one"])
    with pytest.raises(Exception, match=r"(?i)epoch|fenced"):
        first.end(is_commit=True)
    assert committed(broker, topic) == [b"one"]


def test_kafkas_own_copier_copies_exactly_once_with_random_aborts(broker: Broker) -> None:
    source, target = create_topic(broker), create_topic(broker)
    values = [b"%d" % number for number in range(COPIED)]
    produce_values(broker, source, values)
    name = fresh_name("java")
    flags = ["--broker-list", broker.bootstrap_servers, "--input-topic", source, "--input-partition", "0", "--output-topic", target]
    flags += ["--transactional-id", name, "--consumer-group", name, "--max-messages", str(COPIED), "--transaction-size", "20"]
    run_tool("org.apache.kafka.tools.TransactionalMessageCopier", *flags, "--enable-random-aborts", "--use-group-metadata", "--group-mode")
    await_committed(broker, target, values)
    listed = run_tool("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap_servers, "list")
    [line] = [line for line in listed.splitlines() if name in line]
    assert "Complete" in line, listed


def test_kafkas_own_tool_describes_and_finds_nothing_that_hangs(broker: Broker, topic: str) -> None:
    name = fresh_name("id")
    producer = ConfluentProducer(broker.bootstrap_servers, name)
    producer.begin()
    producer.send(topic, b"undecided")
    tool = ["org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap_servers]
    described = run_tool(*tool, "describe", "--transactional-id", name)
    assert "Ongoing" in described
    assert f"{topic}-0" in described
    found = run_tool(*tool, "find-hanging", "--topic", topic, "--partition", "0")
    assert topic not in found, found
    producer.end(is_commit=False)
    assert committed(broker, topic) == []
