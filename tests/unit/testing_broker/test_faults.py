"""Every API that can be made to fail, by a client that is really refused, and does what it does in production."""

import asyncio
import warnings
from collections.abc import Iterator
from uuid import UUID

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from millstream.errors import UsageError
from millstream.testing import Broker
from millstream.testing_broker.faults import ANSWERS
from millstream.wire.api import API_VERSIONS, ApiKey, is_flexible
from millstream.wire.messages import decode_request, decode_response, encode_request_body, encode_response
from tests.topics import fresh_name
from tests.waiting import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas with importlib.resources.read_text
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import TopicAuthorizationFailedError

REFUSED = "TOPIC_AUTHORIZATION_FAILED"


@pytest.fixture
def topic(broker: Broker) -> str:
    name = fresh_name()
    broker.create_topic(name)
    return name


@pytest.fixture
def producer(broker: Broker) -> Iterator[Producer]:
    client = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "retry.backoff.ms": 10})
    yield client
    client.flush(30)


def failures(broker: Broker) -> int:
    return sum(broker.failed_requests.values())


def test_an_idempotent_producer_tries_again_and_writes_once(broker: Broker, producer: Producer, topic: str) -> None:
    producer.produce(topic, "first")
    assert producer.flush(30) == 0
    before = failures(broker)
    broker.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    errors = []
    producer.produce(topic, "second", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]
    assert failures(broker) == before + 2
    assert [message.payload for message in broker.consume(topic)] == [b"first", b"second"]


def test_what_is_refused_for_good_is_not_written(broker: Broker, topic: str) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    broker.fail_next("Produce", REFUSED)
    producer.produce(topic, "refused", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert [error.name() for error in errors if error is not None] == [REFUSED]
    assert broker.consume(topic) == []


def test_kafka_python_raises_the_error(broker: Broker, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False)
    try:
        broker.fail_next("Produce", REFUSED)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send(topic, b"refused").get(30)
        producer.send(topic, b"taken").get(30)
    finally:
        producer.close(timeout=0)
    assert [message.payload for message in broker.consume(topic)] == [b"taken"]


async def test_aiokafka_tries_again(broker: Broker, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10) as producer:
        broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER")
        await producer.send_and_wait(topic, b"taken")
    messages = await asyncio.to_thread(broker.consume, topic)
    assert [message.payload for message in messages] == [b"taken"]


def test_a_producer_without_acknowledgements_loses_its_connection(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": 0})
    broker.fail_next("Produce", REFUSED)
    producer.produce(topic, "lost")
    assert producer.flush(30) == 0
    assert broker.consume(topic) == []


def test_a_fetch_that_fails_reaches_librdkafkas_consumer(broker: Broker, topic: str) -> None:
    broker.produce(topic, "v")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    [first] = consumer.consume(1, timeout=30)
    assert first.value() == b"v"
    broker.fail_next("Fetch", REFUSED)
    message = consumer.poll(30)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.name() == REFUSED
    consumer.close()


def test_a_fetch_of_a_session_fails_too(broker: Broker, topic: str) -> None:
    """kafka-python uses incremental sessions, whose requests name no partitions."""
    broker.produce(topic, "v")
    consumer = KafkaConsumer(topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=50)
    try:
        assert next(consumer).value == b"v"
        broker.fail_next("Fetch", REFUSED)
        with pytest.raises(TopicAuthorizationFailedError):
            consumer.poll(30_000)
    finally:
        consumer.close()


@pytest.mark.parametrize("error", ["REBALANCE_IN_PROGRESS", "GROUP_AUTHORIZATION_FAILED"])
def test_a_commit_fails(broker: Broker, topic: str, error: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "enable.auto.commit": False})
    place = TopicPartition(topic, 0, 1)
    broker.fail_next("OffsetCommit", error)
    with pytest.raises(KafkaException) as refused:
        consumer.commit(offsets=[place], asynchronous=False)
    assert refused.value.args[0].name() == error
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        pytest.param("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", marks=pytest.mark.slow),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        pytest.param("Heartbeat", "UNKNOWN_MEMBER_ID", marks=pytest.mark.slow),
    ],
)
def test_a_group_member_finds_its_way_back(broker: Broker, topic: str, api: str, error: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    before = failures(broker)
    broker.fail_next(api, error)
    consumer = Consumer({**settings, "heartbeat.interval.ms": 50, "session.timeout.ms": 6_000})
    consumer.subscribe([topic])
    broker.produce(topic, "v")
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"v"
    wait_until(lambda: consumer.poll(0.05) or failures(broker) > before, "the request that is to fail")
    assert failures(broker) == before + 1
    consumer.close()


def test_a_producer_id_is_asked_for_again(broker: Broker, topic: str) -> None:
    broker.fail_next("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce(topic, "v")
    assert producer.flush(30) == 0
    assert [message.payload for message in broker.consume(topic)] == [b"v"]


def test_a_member_of_the_newer_protocol_finds_its_way_back(broker: Broker, topic: str) -> None:
    broker.fail_next("ConsumerGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "group.protocol": "consumer"})
    consumer.subscribe([topic])
    broker.produce(topic, "v")
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"v"
    consumer.close()


REQUESTS: dict[ApiKey, dict[str, object]] = {
    ApiKey.PRODUCE: {
        "acks": -1,
        "timeout_ms": 1,
        "topic_data": [{"name": "t", "topic_id": UUID(int=1), "partition_data": [{"index": 3, "records": b""}]}],
    },
    ApiKey.FETCH: {
        "max_wait_ms": 1,
        "min_bytes": 1,
        "topics": [{"topic": "t", "topic_id": UUID(int=1), "partitions": [{"partition": 3, "fetch_offset": 0, "partition_max_bytes": 1}]}],
        "forgotten_topics_data": (),
    },
    ApiKey.OFFSET_COMMIT: {
        "group_id": "g",
        "member_id": "",
        "topics": [
            {"name": "t", "topic_id": UUID(int=1), "partitions": [{"partition_index": 3, "committed_offset": 1, "committed_metadata": ""}]}
        ],
    },
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g"]},
}


@pytest.mark.parametrize("key", ANSWERS)
def test_every_version_of_an_answer_can_be_written_and_has_the_code(key: ApiKey) -> None:
    for version in range(API_VERSIONS[key].lowest, API_VERSIONS[key].highest + 1):
        message = decode_request(key, version, body=encode_request_body(key, version, request=REQUESTS[key])) if key in REQUESTS else None
        answer = ANSWERS[key](message, 29, version)
        assert "29" in repr(
            decode_response(key, version, body=encode_response(key, version, correlation_id=1, reply=answer), start=_body(key, version))
        )


def _body(key: ApiKey, version: int) -> int:
    """Where the body of an answer begins: after its size, its number, and tagged fields."""
    return 9 if is_flexible(key, version) else 8


def test_names_that_cannot_be_are_refused_with_those_that_can(broker: Broker) -> None:
    with pytest.raises(UsageError, match=r"'Proudce' cannot be made to fail: choose one of Produce, Fetch, OffsetCommit, FindCoordinator"):
        broker.fail_next("Proudce", REFUSED)
    with pytest.raises(UsageError, match="not 0 times"):
        broker.fail_next("Produce", REFUSED, times=0)
    with pytest.raises(UsageError, match=r"fail with 'NO_LEADER': choose one of UNKNOWN_SERVER_ERROR, OFFSET_OUT_OF_RANGE"):
        broker.fail_next("Produce", "NO_LEADER")
