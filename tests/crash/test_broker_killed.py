"""A broker process killed with SIGKILL under load: what it acknowledged is there when it is back, in order, and it is back at once."""

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from tests.batches import encode_batch
from tests.brokers import Broker, StartBroker
from tests.clients.test_idempotence import new_producer_id, send
from tests.connection import CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS, METADATA
from tests.crash.load import assert_nothing_acknowledged_is_lost, under_load
from tests.topics import LATEST, create_topic, delete_topic, fresh_name, list_offset, produce, produce_values, read_all, topic_id
from tests.waiting import DEADLINE_S

AT_ONCE_S = 15.0
"""Far below any session timeout: nothing of the former life is waited for."""


@pytest.mark.parametrize("acks", [-1, 1])
def test_nothing_acknowledged_is_lost(start_broker: StartBroker, acks: int) -> None:
    broker = start_broker()
    topic = create_topic(broker, partitions=2)
    with under_load(broker, topic, partitions=2, acks=acks) as load:
        load.wait_for(2000)
        broker.kill()
    broker.start(deadline_s=AT_ONCE_S)
    assert assert_nothing_acknowledged_is_lost(broker, topic, load, partitions=2) >= len(load.acknowledged)


def test_nothing_is_lost_when_it_is_killed_again_and_again_while_segments_roll(start_broker: StartBroker) -> None:
    broker = start_broker()
    topics = []
    for _ in range(4):
        topic = create_topic(broker, configs={"segment.bytes": 1 << 20})
        with under_load(broker, topic, value_bytes=20_000) as load:
            load.wait_for(200)
            broker.kill()
        topics.append((topic, load))
        broker.start(deadline_s=AT_ONCE_S)
    for topic, load in topics:
        assert_nothing_acknowledged_is_lost(broker, topic, load)
        assert len(list(broker.partition_directory(topic).glob("*.log"))) >= 3


def test_nothing_is_lost_when_it_is_killed_while_it_recovers(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker, configs={"segment.bytes": 1 << 20})
    with under_load(broker, topic, value_bytes=20_000) as load:
        load.wait_for(500)
        broker.kill()
    for _ in range(5):
        broker.start(deadline_s=AT_ONCE_S)
        broker.kill()
    broker.start(deadline_s=AT_ONCE_S)
    assert_nothing_acknowledged_is_lost(broker, topic, load)


def test_idempotent_client_that_outlives_the_broker_writes_everything_once_and_in_order(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1, "reconnect.backoff.max.ms": 100}
    producer = Producer(settings)
    errors: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            errors.append(error)

    for number in range(6000):
        producer.produce(topic, b"%d" % number, on_delivery=delivered)
        producer.poll(0)
        if number in (2000, 4000):
            broker.kill()
            broker.start()
    assert producer.flush(DEADLINE_S) == 0
    assert errors == []
    assert [int(record.value or b"") for record in read_all(broker, topic)] == list(range(6000))


def end(broker: Broker, how: str) -> None:
    """The end of a life: killed, or stopped cleanly."""
    if how == "killed":
        broker.kill()
    else:
        assert broker.stop() == 0


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_sequences_of_idempotent_producers_survive(start_broker: StartBroker, how: str) -> None:
    broker = start_broker()
    topic = create_topic(broker)
    with broker.connect() as connection:
        producer, other = new_producer_id(connection), new_producer_id(connection)
        for sequence in range(4):
            assert send(connection, topic, producer, sequence) == (ErrorCode.none, sequence)
    end(broker, how)
    broker.start()
    with broker.connect() as connection:
        assert send(connection, topic, producer, 3) == (ErrorCode.none, 3)
        assert send(connection, topic, producer, 5)[0] == ErrorCode.out_of_order_sequence_number
        assert send(connection, topic, producer, 4) == (ErrorCode.none, 4)
        assert new_producer_id(connection) not in (producer, other)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_topics_ids_and_configs_survive(start_broker: StartBroker, how: str) -> None:
    broker = start_broker()
    kept = create_topic(broker, partitions=3, configs={"retention.ms": 123456})
    gone = create_topic(broker)
    identity = topic_id(broker, kept)
    delete_topic(broker, gone)
    end(broker, how)
    broker.start()
    assert topic_id(broker, kept) == identity
    with broker.connect() as connection:
        topics = {found.name: len(found.partitions) for found in connection.ask(METADATA, 12, {"topics": None}).topics}
        resource = {"resource_type": 2, "resource_name": kept, "configuration_keys": ["retention.ms"]}
        (answer,) = connection.ask(DESCRIBE_CONFIGS, 4, {"resources": [resource]}).results
    assert topics[kept] == 3
    assert gone not in topics
    assert answer.configs[0].value == "123456"


def test_every_answered_creation_and_deletion_survives(start_broker: StartBroker) -> None:
    broker = start_broker()
    created, deleted = [fresh_name() for _ in range(10)], [create_topic(broker) for _ in range(5)]
    with broker.connect() as connection:
        for name in created:
            wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
            assert connection.ask(CREATE_TOPICS, 7, {"topics": wanted, "timeout_ms": 30_000}).topics[0].error_code == 0
        for name in deleted:
            answer = connection.ask(DELETE_TOPICS, 6, {"topics": [{"name": name, "topic_id": None}], "timeout_ms": 30_000})
            assert answer.responses[0].error_code == 0
    broker.kill()
    broker.start(deadline_s=AT_ONCE_S)
    with broker.connect() as connection:
        names = {found.name for found in connection.ask(METADATA, 12, {"topics": None}).topics}
    assert set(created) <= names
    assert not set(deleted) & names
    for name in created:
        produce_values(broker, name, [b"usable"])


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_what_was_flushed_is_visible_as_soon_as_the_broker_is_ready(start_broker: StartBroker, how: str) -> None:
    """Where nothing may be shown before it is flushed, recovery has to flush before it lets clients in, or the log looks empty to them."""
    broker = start_broker()
    topic = create_topic(broker, configs={"flush.messages": 1})
    produce_values(broker, topic, [b"x"] * 50, batch_size=1)
    end(broker, how)
    broker.start()
    with broker.connect() as connection:
        assert list_offset(connection, topic, LATEST).offset == 50
    assert len(read_all(broker, topic)) == 50


def test_clean_stop_under_load_loses_nothing_and_ends_with_0(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker)
    with under_load(broker, topic) as load:
        load.wait_for(1000)
        assert broker.stop() in (0, 143)
    broker.start()
    assert_nothing_acknowledged_is_lost(broker, topic, load)


def test_clients_reconnect_to_the_broker_that_is_back(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker)
    for life in range(3):
        with broker.connect() as connection:
            assert produce(connection, topic, encode_batch([b"%d" % life])).base_offset == life
        broker.kill()
        broker.start(deadline_s=AT_ONCE_S)
    assert [record.value for record in read_all(broker, topic)] == [b"0", b"1", b"2"]
