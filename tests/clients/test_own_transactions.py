"""Transactions of our own client, and our readers of aborted data; against Apache Kafka as well."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from millstream import Consumer, Producer, SimpleConsumer, read_table
from millstream.client.errors import DeliveryFailed
from millstream.errors import UsageError
from millstream.paper.errors import TransactionAborted
from millstream.transaction_errors import ProducerFenced
from tests.brokers import IS_KAFKA, Broker, MillstreamBroker
from tests.clients.transactional import transact
from tests.group_offsets import fetch
from tests.topics import create_topic, fresh_name
from tests.unit.cli.conftest import Millstream, millstream
from tests.waiting import wait_until

__all__ = ["millstream"]


@pytest.fixture
def producer(broker: Broker) -> Iterator[Producer]:
    with Producer(broker.bootstrap_servers, transactional_id=fresh_name("id"), transaction_timeout_s=30) as made:
        yield made


def send(producer: Producer, topic: str, *values: bytes, error: Exception | None = None) -> None:
    """One transaction with these values; if it is aborted, they are in the log before."""
    with producer.transaction():
        producer.send(topic, list(values))
        if error is not None:
            producer.flush()
            raise error


def send_offset(producer: Producer, group: str, place: tuple[str, int], offset: int, *, error: Exception | None = None) -> None:
    with producer.transaction() as transaction:
        transaction.send_offsets(group, {place: offset})
        if error is not None:
            raise error


def await_committed(broker: Broker, topic: str, *values: bytes) -> None:
    """A commit is answered when it is decided; the markers follow."""
    with SimpleConsumer(broker.bootstrap_servers) as simple:
        wait_until(lambda: simple.latest(topic, 0) >= len(values), "the end of a transaction")
        wait_until(
            lambda: [message.payload for message in simple.fetch(topic, 0, 0, max_wait_ms=1)] == list(values),
            f"{values} in {simple.fetch(topic, 0, 0, max_wait_ms=1)}",
        )


def await_offset(broker: Broker, group: str, topic: str, offset: int) -> None:
    with broker.connect() as connection:
        wait_until(lambda: fetch(connection, group, topic) == (0, offset), f"{offset} committed")


# --- producer


def test_leaving_the_block_commits_and_an_exception_aborts(broker: Broker, topic: str, producer: Producer) -> None:
    other = create_topic(broker)
    with producer.transaction():
        producer.send(topic, [b"one", b"two"])
        producer.send(other, b"three")
    with pytest.raises(KeyError):
        send(producer, topic, b"never", error=KeyError("the program's own"))
    send(producer, topic, b"four")
    await_committed(broker, topic, b"one", b"two", b"four")
    await_committed(broker, other, b"three")


def test_offsets_are_committed_with_the_transaction_or_not_at_all(broker: Broker, topic: str, producer: Producer) -> None:
    group = fresh_name("group")
    with pytest.raises(KeyError):
        send_offset(producer, group, (topic, 0), 9, error=KeyError())
    send_offset(producer, group, (topic, 0), 5)
    await_offset(broker, group, topic, 5)


def test_a_consumer_of_confluent_kafka_goes_on_after_what_its_transaction_has(broker: Broker, topic: str, producer: Producer) -> None:
    transact(broker.bootstrap_servers, topic, [([b"a", b"b", b"c"], True)], transactional_id=fresh_name("id"))
    group, copy = fresh_name("group"), create_topic(broker)
    consumer = ConfluentConsumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([topic])
        with producer.transaction() as transaction:
            for _ in range(2):
                [message] = consumer.consume(1, 30)
                producer.send(copy, message.value() or b"")
            transaction.send_offsets(consumer)
    finally:
        consumer.close()
    await_offset(broker, group, topic, 2)
    await_committed(broker, copy, b"a", b"b")


def test_a_second_producer_with_the_id_fences_the_first(broker: Broker, topic: str) -> None:
    name = fresh_name("id")
    first, successors = Producer(broker.bootstrap_servers, transactional_id=name), []

    def send_as_a_zombie() -> None:
        with first.transaction():
            first.send(topic, b"of the zombie")
            first.flush()
            successors.append(Producer(broker.bootstrap_servers, transactional_id=name))

    send(first, topic, b"one")
    with pytest.raises(ProducerFenced, match=f"another producer with transactional_id='{name}'"):
        send_as_a_zombie()
    with pytest.raises(ProducerFenced):
        send(first, topic, b"of the zombie")
    with pytest.raises(ProducerFenced):
        first.send(topic, b"of the zombie")
    send(successors[0], topic, b"two")
    await_committed(broker, topic, b"one", b"two")


def test_what_the_broker_refuses_aborts_and_the_producer_goes_on(broker: Broker, producer: Producer) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 1000})
    with pytest.raises(DeliveryFailed, match="more than the topic"):
        send(producer, topic, b"x" * 5000)
    with pytest.raises(TransactionAborted, match="begin it again"):
        send_on_after_a_failure(producer, topic)
    send(producer, topic, b"fine")
    await_committed(broker, topic, b"fine")


def send_on_after_a_failure(producer: Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"x" * 5000)
        with suppress(DeliveryFailed):
            producer.flush()
        producer.send(topic, b"small")


def nested(producer: Producer) -> None:
    with producer.transaction(), producer.transaction():
        pass


def used_twice(producer: Producer) -> None:
    transaction = producer.transaction()
    with transaction:
        pass
    with transaction:
        pass


def sent_later(producer: Producer) -> None:
    with producer.transaction() as transaction:
        pass
    transaction.send_offsets("group", {("topic", 0): 1})


def of_something_else(producer: Producer) -> None:
    with producer.transaction() as transaction:
        transaction.send_offsets(object(), {("topic", 0): 1})


def of_no_group(producer: Producer) -> None:
    with producer.transaction() as transaction:
        transaction.send_offsets("", {("topic", 0): 1})


def below_zero(producer: Producer) -> None:
    with producer.transaction() as transaction:
        transaction.send_offsets("group", {("topic", 0): 7, ("topic", 1): -1})


def without_offsets(producer: Producer) -> None:
    with producer.transaction() as transaction:
        transaction.send_offsets("group")


@pytest.mark.parametrize(
    ("misuse", "hint"),
    [
        (lambda producer: producer.send("topic", b""), "send inside of `with producer.transaction"),
        (nested, "a transaction of this producer is open"),
        (used_twice, "a transaction is used once"),
        (sent_later, "this transaction is not open"),
        (of_something_else, "those of the paper's consumer are in ZooKeeper"),
        (without_offsets, "which offsets of the group 'group'?"),
        (of_no_group, "which group?"),
        (below_zero, "topic-1 cannot be -1"),
    ],
)
def test_misuse_is_an_error_that_says_what_to_do(producer: Producer, misuse: Callable[[Producer], None], hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        misuse(producer)
    assert hint in str(refused.value)


def test_settings_that_cannot_be_are_refused(broker: Broker) -> None:
    with pytest.raises(UsageError, match="make it with transactional_id="):
        Producer(broker.bootstrap_servers).transaction()
    with pytest.raises(UsageError, match=r"transaction\.max\.timeout\.ms"):
        Producer(broker.bootstrap_servers, transactional_id="long", transaction_timeout_s=100_000)
    with pytest.raises(UsageError, match=r"give transactional_id="):
        Producer(broker.bootstrap_servers, options={"transactional.id": "long"})


# --- readers


@pytest.fixture(scope="module")
def mixed(broker: Broker) -> Iterator[str]:
    """A topic with committed and aborted transactions, and one that is open."""
    name = create_topic(broker)
    decided = [([b"one"], True), ([b"gone"] * 3, False), ([b"two", b"three"], True), ([b"gone"], False)]
    transact(broker.bootstrap_servers, name, decided, transactional_id=fresh_name("id"))
    with Producer(broker.bootstrap_servers, transactional_id=fresh_name("id")) as producer, producer.transaction():
        producer.send(name, b"undecided")
        producer.flush()
        yield name


READ = {"read_committed": [b"one", b"two", b"three"], "read_uncommitted": [b"one", *[b"gone"] * 3, b"two", b"three", b"gone", b"undecided"]}


@pytest.mark.parametrize("isolation", READ)
def test_the_simple_consumer_reads_what_its_isolation_says(broker: Broker, mixed: str, isolation: str) -> None:
    with SimpleConsumer(broker.bootstrap_servers, isolation=isolation) as simple:  # type: ignore[arg-type] # one of the two
        values, offset = [], 0
        while messages := simple.fetch(mixed, 0, offset, max_bytes=1, max_wait_ms=1):
            values += [message.payload for message in messages]
            offset = messages[-1].offset + 1
        assert values == READ[isolation]
        assert simple.latest(mixed, 0) == (11 if isolation == "read_committed" else 12)


def test_a_pull_that_finds_only_aborted_messages_says_where_to_go_on(broker: Broker, mixed: str) -> None:
    with SimpleConsumer(broker.bootstrap_servers) as simple:
        pull = simple.pull(mixed, 0, 9, max_wait_ms=1)
        assert (pull.messages(), pull.next_offset) == ([], 11)
        pull = simple.pull(mixed, 0, 11, max_wait_ms=1)
        assert (pull.messages(), pull.next_offset) == ([], 11)


@pytest.mark.parametrize("isolation", READ)
def test_a_table_has_what_its_isolation_says(broker: Broker, mixed: str, isolation: str) -> None:
    table = read_table(mixed, brokers=broker.bootstrap_servers, options={"isolation.level": isolation})
    assert table["value"].to_pylist() == READ[isolation]


@pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")
@pytest.mark.parametrize("isolation", READ)
def test_a_stream_has_what_its_isolation_says(broker: Broker, mixed: str, isolation: str) -> None:
    assert isinstance(broker, MillstreamBroker)
    with Consumer(broker.coordination, fresh_name("group"), isolation=isolation) as consumer:  # type: ignore[arg-type] # one of the two
        [stream] = consumer.create_message_streams(mixed)
        assert [next(stream).payload for _ in READ[isolation]] == READ[isolation]


@pytest.mark.parametrize("isolation", READ)
def test_the_command_line_reads_what_its_isolation_says(broker: Broker, mixed: str, millstream: Millstream, isolation: str) -> None:
    done = millstream("consume", mixed, "--isolation", isolation, "--output", "json", "-b", broker.bootstrap_servers)
    assert [record["value"].encode() for record in done.documents] == READ[isolation]
