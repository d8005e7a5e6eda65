"""Three brokers, everything replicated: coordinators move with the leaders of their partitions, and clients go on when a broker goes."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from millstream.paper.consumer import Consumer as PaperConsumer
from millstream.paper.producer import Producer as PaperProducer
from millstream.registry.model.records import Key, LogRecord
from millstream.registry.schema_log import SchemaLog
from tests.brokers import IS_KAFKA, Broker, MillstreamBroker
from tests.clients.group_requests import NOT_YET
from tests.cluster.brokers import MillstreamBrokers
from tests.connection import CREATE_TOPICS, METADATA, Connection, ConnectionEnded
from tests.group_offsets import commit, fetch, fetch_stable, find
from tests.topics import fresh_name
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="starts several brokers of its own")

ELECT_LEADERS = 43
OPTIONS = {
    "offsets.topic.num.partitions": 6,
    "group.initial.rebalance.delay.ms": 0,
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": 4_000,
}
GROUPS = [f"group-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    with MillstreamBrokers(tmp_path_factory.mktemp("cluster"), OPTIONS) as cluster:
        yield list(cluster.nodes.values())


@pytest.fixture
def brokers(cluster: list[Broker]) -> list[Broker]:
    """Three that run, whatever the test before left."""
    for broker in cluster:
        if not broker.is_running:
            broker.start()
    with cluster[0].connect() as connection:
        wait_until(lambda: len(connection.ask(METADATA, 12, {"topics": []}).brokers) == 3, "all know each other")
    return cluster


def coordinators(connection: Connection) -> dict[str, int]:
    """Who looks after which group."""
    answers = find(connection, *GROUPS)
    return {one.key: one.node_id for one in answers if one.error_code == 0}


def partitions(connection: Connection, topic: str) -> Any:
    topics = [{"name": topic, "topic_id": None}]
    return connection.ask(METADATA, 12, {"topics": topics, "allow_auto_topic_creation": False}).topics[0].partitions


def settled(
    brokers: list[Broker], group: str, topic: str, *, ask: Callable[[Connection, str, str], tuple[int, int]] = fetch
) -> tuple[int, int]:
    """What the coordinator of a group says is committed, whoever it is by now."""
    found: list[tuple[int, int]] = []

    def is_answered() -> bool:
        with brokers[0].connect() as connection:
            (place,) = find(connection, group)
        if place.error_code:
            return False
        try:
            with Connection(("127.0.0.1", place.port)) as connection:
                found[:] = [ask(connection, group, topic)]
        except (OSError, ConnectionEnded):
            return False
        return found[0][0] not in NOT_YET

    wait_until(is_answered, f"the coordinator of {group}", deadline_s=60)
    return found[0]


def create(broker: Broker, topic: str, *, partitions: int) -> None:
    with broker.connect() as connection:
        entry = {"name": topic, "num_partitions": partitions, "replication_factor": 3}
        assert connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000}).topics[0].error_code == 0


def topic_and_group(brokers: list[Broker], node_id: int) -> tuple[str, str]:
    """A topic of two partitions, and a group that this broker looks after."""
    topic = fresh_name()
    create(brokers[0], topic, partitions=2)
    with brokers[0].connect() as connection:
        places = coordinators(connection)
    return topic, next(group for group in GROUPS if places.get(group) == node_id)


def _is_committed(connection: Connection, group: str, topic: str, offset: int) -> bool:
    return commit(connection, group, topic, offset) == 0


def _is_refused(connection: Connection, group: str, topic: str) -> bool:
    return fetch(connection, group, topic)[0] == ErrorCode.not_coordinator


def test_coordinators_move_with_their_partitions_and_know_what_was_committed(brokers: list[Broker]) -> None:
    topic = fresh_name()
    with ExitStack() as stack:
        connections = {number: stack.enter_context(broker.connect()) for number, broker in enumerate(brokers, start=1)}
        create(brokers[2], topic, partitions=1)
        places = coordinators(connections[2])
        assert {len(one.replica_nodes) for one in partitions(connections[2], "__consumer_offsets")} == {3}
        assert set(places.values()) == {1, 2, 3}
        for offset, group in enumerate(GROUPS):
            wait_until(partial(_is_committed, connections[places[group]], group, topic, offset), f"commit of {group}")
    lost = [group for group in GROUPS if places[group] == 3]
    brokers[2].kill()
    for group in lost:
        assert settled(brokers, group, topic) == (0, GROUPS.index(group))
    with brokers[0].connect() as connection:
        assert set(coordinators(connection).values()) == {1, 2}
    brokers[2].start()
    with brokers[0].connect() as connection:
        wait_until(
            lambda: all(len(one.isr_nodes) == 3 for one in partitions(connection, "__consumer_offsets")), "all in sync", deadline_s=60
        )
        answer = connection.ask(ELECT_LEADERS, 2, {"election_type": 0, "topic_partitions": None, "timeout_ms": 30_000})
        assert answer.error_code == 0
        wait_until(lambda: coordinators(connection) == places, "preferred leaders lead")
        for group in lost:
            with brokers[1].connect() as other:
                refused = partial(_is_refused, other, group, topic)
                wait_until(refused, "the broker that led meanwhile knows")
            assert settled(brokers, group, topic) == (0, GROUPS.index(group))


def test_consumers_go_on_when_their_coordinator_goes(brokers: list[Broker]) -> None:
    topic, group = topic_and_group(brokers, 2)
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    received: list[bytes | None] = []

    def consume(count: int) -> None:
        deadline = time.monotonic() + 90
        while len(received) < count and time.monotonic() < deadline:
            received.extend(message.value() for message in consumer.consume(100, timeout=0.2) if message.error() is None)

    try:
        for number in range(200):
            producer.produce(topic, str(number), partition=number % 2)
            if number == 99:
                producer.flush(60)
                consume(100)
                consumer.commit(asynchronous=False)
                brokers[1].kill()
        assert producer.flush(60) == 0
        consume(200)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert set(range(200)) == {int(value or b"") for value in received}
    assert settled(brokers, group, topic)[1] == 100


def test_offset_in_an_open_transaction_is_known_to_the_next_coordinator(brokers: list[Broker]) -> None:
    topic, group = topic_and_group(brokers, 3)
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    former = settled(brokers, group, topic)[1]
    producer = Producer({"bootstrap.servers": servers, "transactional.id": fresh_name("copier"), "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    reader = Consumer({"bootstrap.servers": servers, "group.id": group})
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], reader.consumer_group_metadata(), 60)
    reader.close()
    brokers[2].kill()
    assert settled(brokers, group, topic, ask=fetch_stable) == (ErrorCode.unstable_offset_commit, -1)
    assert settled(brokers, group, topic)[1] == former
    producer.commit_transaction(60)
    wait_until(lambda: settled(brokers, group, topic, ask=fetch_stable) == (0, 7), "the marker", deadline_s=60)


def test_papers_client_goes_on_when_a_broker_goes(brokers: list[Broker]) -> None:
    topic, servers = fresh_name(), ",".join(broker.bootstrap_servers for broker in reversed(brokers))
    create(brokers[1], topic, partitions=3)
    first = brokers[0]
    assert isinstance(first, MillstreamBroker)
    with PaperConsumer(zookeeper=first.coordination, group=fresh_name("group"), options={"log_level": 0}) as consumer:
        (stream,) = consumer.create_message_streams(topic)
        received: set[bytes | None] = set()
        with PaperProducer(servers, options={"log_level": 0}) as producer:
            for number in range(300):
                producer.send(topic, b"%d" % number)
                if number == 149:
                    producer.flush()
                    brokers[2].kill()
        for message in stream:
            received.add(message.payload)
            if len(received) == 300:
                break
    assert received == {b"%d" % number for number in range(300)}


async def test_registry_keeps_schemas_on_all_brokers_and_goes_on_without_one(brokers: list[Broker]) -> None:
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    read: list[LogRecord] = []
    log = SchemaLog(
        {"bootstrap.servers": servers},
        on_record=lambda _offset, record, _term: read.append(record),
        on_failure=pytest.fail,
    )
    log.start()
    try:
        await log.until_caught_up()
        with brokers[0].connect() as connection:
            (partition,) = partitions(connection, "_schemas")
        assert len(partition.replica_nodes) == 3
        record = LogRecord(Key("NOOP"), {"x": 1})
        await log.append([record], term="a")
        brokers[1].kill()
        assert await log.append([record], term="a") == 1
    finally:
        await log.stop()
    assert len(read) == 2
