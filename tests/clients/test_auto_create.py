"""Topics come to be when a client asks for them, if both sides allow it, and never otherwise."""

import pytest
from confluent_kafka import KafkaError, Producer

from tests.brokers import Broker, StartBroker
from tests.clients.client import Client, Message
from tests.connection import METADATA
from tests.topics import fresh_name
from tests.waiting import DEADLINE_S, wait_until


def describe(broker: Broker, topic: str, *, version: int = 12, allow: bool = True) -> int:
    """The error code with which Metadata answers for the topic."""
    with broker.connect() as connection:
        fields = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": allow}
        code: int = connection.ask(METADATA, version, fields).topics[0].error_code
        return code


def test_writing_to_an_unknown_topic_creates_it(broker: Broker, client: Client) -> None:
    topic = fresh_name()
    with client.writer(broker) as writer:
        assert writer.write(topic, [Message(b"first")]) == [0]
    with client.reader(broker, topic) as reader:
        assert reader.read(1)[0].value == b"first"


@pytest.mark.parametrize("version", [0, 1, 3, 4, 8, 9, 12, 13])
def test_metadata_creates_a_topic_when_it_is_asked_to(broker: Broker, version: int) -> None:
    topic = fresh_name()
    assert describe(broker, topic, version=version) in (0, 3, 5)
    wait_until(lambda: describe(broker, topic, version=version) == 0, "topic created")


def test_metadata_creates_nothing_when_that_is_not_allowed(broker: Broker) -> None:
    topic = fresh_name()
    for _ in range(3):
        assert describe(broker, topic, allow=False) == 3
    with broker.connect() as connection:
        assert topic not in {found.name for found in connection.ask(METADATA, 12, {"topics": None}).topics}


def test_asking_for_all_topics_creates_none(broker: Broker) -> None:
    with broker.connect() as connection:
        before = {found.name for found in connection.ask(METADATA, 12, {"topics": None}).topics}
        after = {found.name for found in connection.ask(METADATA, 12, {"topics": None, "allow_auto_topic_creation": True}).topics}
    assert before == after


def test_topic_with_a_name_that_is_not_allowed_is_not_created(broker: Broker) -> None:
    assert describe(broker, "not allowed!") == 17


def test_broker_that_does_not_allow_it_creates_nothing(start_broker: StartBroker) -> None:
    broker = start_broker(auto_create_topics_enable="false", num_partitions=4)
    topic = fresh_name()
    for _ in range(3):
        assert describe(broker, topic) == 3
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "topic.metadata.propagation.max.ms": 100})
    errors: list[object] = []
    producer.produce(topic, b"lost", on_delivery=lambda error, _: errors.append(error and error.code()))
    producer.flush(DEADLINE_S)
    assert errors in ([KafkaError._UNKNOWN_TOPIC], [KafkaError.UNKNOWN_TOPIC_OR_PART])


def test_created_topic_has_the_brokers_number_of_partitions(start_broker: StartBroker) -> None:
    broker = start_broker(num_partitions=4)
    topic = fresh_name()
    wait_until(lambda: describe(broker, topic) == 0, "topic created")
    with broker.connect() as connection:
        answer = connection.ask(METADATA, 12, {"topics": [{"name": topic, "topic_id": None}]})
    assert len(answer.topics[0].partitions) == 4
