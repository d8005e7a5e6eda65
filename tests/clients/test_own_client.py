"""The client of the paper against a real broker: producer and simple consumer, also against Apache Kafka; and what bad input is told."""

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from millstream import Consumer, Message, MessageSet, Producer, SimpleConsumer
from millstream.client.errors import BrokerUnavailable, DeliveryFailed
from millstream.errors import OffsetOutOfRange, UnknownTopicOrPartition, UsageError
from millstream.paper.errors import ConsumerClosed, ConsumerIdTaken, OffsetExpired, ZooKeeperUnavailable
from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, Broker, MillstreamBroker
from tests.connection import DELETE_RECORDS
from tests.topics import create_topic, fresh_name, produce, produce_values, read_all
from tests.waiting import wait_until

on_zookeeper = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")


@pytest.fixture
def simple(broker: Broker) -> Iterator[SimpleConsumer]:
    with SimpleConsumer(broker.bootstrap_servers) as consumer:
        yield consumer


@pytest.fixture
def coordination(broker: Broker) -> str:
    assert isinstance(broker, MillstreamBroker)
    return broker.coordination


def nowhere() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


# --- producer


def test_a_producer_sends_messages_sets_lists_and_payloads(broker: Broker, topic: str, simple: SimpleConsumer) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, MessageSet([Message(b"set", key="k", headers={"h": b"1"}, timestamp=moment), b"payload in a set"]))
        producer.send(topic, Message("text"))
        producer.send(topic, b"payload")
        producer.send(topic, ["in a list", Message(None, key="tombstone")])
    messages = simple.fetch(topic, 0, 0)
    assert [message.payload for message in messages] == [b"set", b"payload in a set", b"text", b"payload", b"in a list", None]
    first = messages[0]
    assert (first.topic, first.partition, first.offset, first.key) == (topic, 0, 0, b"k")
    assert (list(first.headers), first.timestamp_ms) == ([("h", b"1")], round(moment.timestamp() * 1000))
    assert messages[5].key == b"tombstone"


def test_a_producer_that_is_faster_than_its_queue_waits_for_room(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap_servers, options={"queue.buffering.max.messages": 100, "linger.ms": 5}) as producer:
        producer.send(topic, [b"%d" % number for number in range(2000)])
    assert [record.value for record in read_all(broker, topic)] == [b"%d" % number for number in range(2000)]


def test_what_the_broker_refuses_is_raised_by_the_producer(broker: Broker) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 1000})
    producer = Producer(broker.bootstrap_servers)
    producer.send(topic, b"x" * 5000)
    with pytest.raises(
        DeliveryFailed, match=f"a message of 5000 bytes is more than the topic '{topic}' takes: raise its max.message.bytes"
    ):
        producer.flush(30)
    producer.send(topic, b"fine")
    producer.close()


def test_several_failures_are_raised_together(broker: Broker) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 1000})
    with pytest.raises(DeliveryFailed, match="3 messages were not written, the first because"):
        send_and_close(broker, topic, [b"x" * 5000] * 3)


def send_and_close(broker: Broker, topic: str, payloads: list[bytes]) -> None:
    with Producer(broker.bootstrap_servers, options={"linger.ms": 100}) as producer:
        producer.send(topic, payloads)


def test_a_producer_that_is_closed_takes_nothing_that_nobody_would_wait_for(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"in time")
        producer.close()  # once more at the end of the block, which is fine
    for _ in range(2):
        with pytest.raises(UsageError, match=r"this producer is closed: send before close\(\)"):
            producer.send(topic, b"late")
    producer.flush()
    assert [record.value for record in read_all(broker, topic)] == [b"in time"]


def test_a_producer_that_is_closed_begins_no_transaction(broker: Broker) -> None:
    producer = Producer(broker.bootstrap_servers, transactional_id=fresh_name("closed"))
    producer.close()
    with pytest.raises(UsageError, match="this producer is closed"):
        producer.transaction()


def test_a_producer_whose_block_failed_is_closed_too(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap_servers)
    with pytest.raises(ValueError, match="of the block"), producer:
        raise ValueError("of the block")
    with pytest.raises(UsageError, match="this producer is closed"):
        producer.send(topic, b"late")


def test_a_producer_without_a_broker_fails_at_once() -> None:
    address = nowhere()
    with pytest.raises(BrokerUnavailable, match=f"no broker answers at {address}"):
        Producer(address, connect_timeout_s=0.5)


def test_options_that_librdkafka_does_not_take_are_an_error(broker: Broker) -> None:
    with pytest.raises(UsageError, match=r"no\.such\.option"):
        Producer(broker.bootstrap_servers, options={"no.such.option": 1})


# --- simple consumer


def test_a_pull_request_names_an_offset_and_the_bytes_that_are_acceptable(broker: Broker, topic: str, simple: SimpleConsumer) -> None:
    produce_values(broker, topic, [b"%04d" % number for number in range(1000)], batch_size=100)
    some = simple.fetch(topic, 0, 250, max_bytes=3000)
    assert some[0].offset == 250
    assert 50 <= len(some) < 300
    assert simple.fetch(topic, 0, 1000, max_wait_ms=1) == []
    assert (simple.partitions(topic), simple.earliest(topic, 0), simple.latest(topic, 0)) == ([0], 0, 1000)


def test_several_pulls_are_under_way_at_once(broker: Broker, simple: SimpleConsumer) -> None:
    topic = create_topic(broker, partitions=3)
    for partition in range(3):
        produce_values(broker, topic, [b"%d" % partition], partition=partition)
    pulls = [simple.pull(topic, partition, 0) for partition in (0, 1, 2)]
    assert [[message.payload for message in pull.messages()] for pull in pulls] == [[b"0"], [b"1"], [b"2"]]


def test_an_offset_is_found_by_time(broker: Broker, topic: str, simple: SimpleConsumer) -> None:
    with broker.connect() as connection:
        produce(connection, topic, encode_batch([b"a", b"b"], timestamp=1_700_000_000_000, timestamp_step=60_000))
    assert simple.offset_at(topic, 0, datetime.fromtimestamp(1_700_000_030, UTC)) == 1
    assert simple.offset_at(topic, 0, 1_700_000_000_000) == 0
    assert simple.offset_at(topic, 0, datetime(2030, 1, 1, tzinfo=UTC)) is None


def test_an_offset_that_is_not_there_is_an_error(topic: str, simple: SimpleConsumer) -> None:
    with pytest.raises(OffsetOutOfRange, match=f"there is no offset 5 in {topic}-0: ask for its earliest and its latest offset"):
        simple.fetch(topic, 0, 5)
    with pytest.raises(OffsetOutOfRange):
        simple.pull(topic, 0, 5).messages()


# --- consumer: what bad input is told


@on_zookeeper
def test_no_zookeeper_is_an_error_that_names_its_address() -> None:
    address = nowhere()
    with pytest.raises(ZooKeeperUnavailable, match=f"no ZooKeeper answers at {address}"):
        Consumer(address, "search", connect_timeout_s=0.5)


@on_zookeeper
@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda address: Consumer(address, ""), "the group '' cannot be"),
        (lambda address: Consumer(address, "a/b"), "the group 'a/b' cannot be"),
        (lambda address: Consumer(address, "g", consumer_id=".."), "the consumer id '..' cannot be"),
        (lambda address: Consumer(address, "g", start="newest"), "'earliest', 'latest'"),  # type: ignore[arg-type]  # what is refused
        (lambda _: Consumer("127.0.0.1:port", "g"), "no address"),
    ],
)
def test_arguments_that_cannot_be_are_refused(coordination: str, make: Callable[[str], Consumer], hint: str) -> None:
    with pytest.raises(UsageError) as told:
        make(coordination)
    assert hint in str(told.value)


@on_zookeeper
def test_an_unknown_topic_is_named_in_the_error_and_the_consumer_can_go_on(broker: Broker, coordination: str) -> None:
    name = fresh_name("missing")
    with Consumer(coordination, fresh_name("group")) as consumer:
        with pytest.raises(UnknownTopicOrPartition, match=f"no topic '{name}': create it"):
            consumer.create_message_streams(name)
        create_topic(broker, name=name)
        produce_values(broker, name, [b"now"])
        [stream] = consumer.create_message_streams(name)
        assert next(stream).payload == b"now"


@on_zookeeper
def test_a_tree_without_brokers_is_an_error(coordination: str) -> None:
    with (
        Consumer(f"{coordination}/{fresh_name('empty')}", "g") as consumer,
        pytest.raises(BrokerUnavailable, match="no broker is registered"),
    ):
        consumer.create_message_streams("clicks")


@on_zookeeper
@pytest.mark.parametrize(("topics", "count"), [({}, 1), ({"a": 0}, 1), ("a", -1), ("a/b", 1), (["a"], 1)])
def test_streams_that_cannot_be_are_refused(coordination: str, topics: dict[str, int], count: int) -> None:
    with Consumer(coordination, "g") as consumer, pytest.raises(UsageError):
        consumer.create_message_streams(topics, count)


@on_zookeeper
def test_streams_are_made_once(topic: str, coordination: str) -> None:
    with Consumer(coordination, fresh_name("group")) as consumer:
        consumer.create_message_streams(topic)
        with pytest.raises(UsageError, match="name all topics in one call"):
            consumer.create_message_streams(topic)
        with pytest.raises(UsageError, match="no stream of 'other'"):
            consumer.rewind("other", to="earliest")
        with pytest.raises(UsageError, match="give an offset"):
            consumer.rewind(topic, to=-5)


@on_zookeeper
def test_two_consumers_cannot_have_one_id(topic: str, coordination: str) -> None:
    group = fresh_name("group")
    with (
        Consumer(coordination, group, consumer_id="ann") as first,
        Consumer(coordination, group, consumer_id="ann", session_timeout_s=2.0) as second,
    ):
        first.create_message_streams(topic)
        with pytest.raises(ConsumerIdTaken, match=r"another consumer of the group .* is called 'ann'"):
            second.create_message_streams(topic)
        first.close()
        [stream] = second.create_message_streams(topic)
        wait_until(lambda: stream.partitions == [0], "the id is free again")


@on_zookeeper
def test_a_consumer_that_was_closed_says_so_and_closing_twice_is_fine(topic: str, coordination: str) -> None:
    consumer = Consumer(coordination, fresh_name("group"))
    [stream] = consumer.create_message_streams(topic)
    consumer.close()
    consumer.close()
    assert list(stream) == []
    with pytest.raises(ConsumerClosed):
        consumer.commit()


def delete_records(broker: Broker, topic: str, before: int) -> None:
    fields = {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": before}]}], "timeout_ms": 10_000}
    with broker.connect() as connection:
        assert connection.ask(DELETE_RECORDS, 2, fields).topics[0].partitions[0].error_code == 0


@on_zookeeper
@pytest.mark.parametrize(("expired", "first"), [("earliest", 60), ("latest", 100)])
def test_offsets_that_have_expired_give_way_to_an_end(broker: Broker, topic: str, coordination: str, expired: str, first: int) -> None:
    group = fresh_name("group")
    produce_values(broker, topic, [b"%d" % number for number in range(100)])
    with Consumer(coordination, group) as consumer:
        next(consumer.create_message_streams(topic)[0])
    delete_records(broker, topic, 60)
    with Consumer(coordination, group, expired=expired) as consumer:  # type: ignore[arg-type]  # one of the two
        [stream] = consumer.create_message_streams(topic)
        produce_values(broker, topic, [b"new"])
        assert next(stream).offset == first


@on_zookeeper
def test_offsets_that_have_expired_are_an_error_if_so_configured_and_a_rewind_helps(broker: Broker, topic: str, coordination: str) -> None:
    produce_values(broker, topic, [b"%d" % number for number in range(100)])
    group = fresh_name("group")
    with Consumer(coordination, group) as consumer:
        next(consumer.create_message_streams(topic)[0])
    delete_records(broker, topic, 60)
    with Consumer(coordination, group, expired="error") as consumer:
        [stream] = consumer.create_message_streams(topic)
        for _ in range(2):
            with pytest.raises(OffsetExpired, match=f"{topic}-0 is not there any more"):
                next(stream)
        assert consumer.rewind(topic, to="earliest") == {0: 60}
        assert next(stream).offset == 60


@on_zookeeper
def test_a_consumer_does_not_become_a_group_of_the_broker(broker: Broker, topic: str, coordination: str) -> None:
    """The broker keeps no state of the paper's groups."""
    produce_values(broker, topic, [b"x"])
    group = fresh_name("group")
    with Consumer(coordination, group) as consumer:
        next(consumer.create_message_streams(topic)[0])
        consumer.commit()
    with broker.connect() as connection:
        groups = [entry.group_id for entry in connection.ask(16, 4, {"states_filter": []}).groups]
    assert group not in groups
