"""Any broker may be asked: what only the controller can do is passed on to it, and groups are looked after where their partition is led."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, Broker
from tests.cluster.brokers import MillstreamBrokers
from tests.connection import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    Connection,
)
from tests.group_offsets import commit, fetch, find
from tests.topics import fresh_name

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="starts several brokers of its own")

LIST_GROUPS, ENVELOPE = 16, 58
OPTIONS = {"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0, "default.replication.factor": 1}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    with MillstreamBrokers(tmp_path_factory.mktemp("cluster"), OPTIONS, count=2) as cluster:
        yield list(cluster.nodes.values())


@pytest.fixture
def connections(brokers: list[Broker]) -> Iterator[list[Connection]]:
    """One to each broker; the controller is the first."""
    with ExitStack() as stack:
        yield [stack.enter_context(broker.connect()) for broker in brokers]


def create(connection: Connection, name: str, **fields: object) -> Any:
    entry = {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}
    return connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000}).topics[0]


def describe(connection: Connection, *topics: dict[str, object], may_create: bool = False) -> Any:
    return connection.ask(METADATA, 12, {"topics": list(topics), "allow_auto_topic_creation": may_create}).topics


def named(name: str) -> dict[str, object]:
    return {"name": name, "topic_id": None}


def configs_of(connection: Connection, kind: int, name: str) -> dict[str, str]:
    answer = connection.ask(
        DESCRIBE_CONFIGS, 4, {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]}
    )
    assert answer.results[0].error_code == 0, answer.results[0]
    return {one.name: one.value for one in answer.results[0].configs}


def increment(connection: Connection, kind: int, name: str, option: str, value: str) -> Any:
    configs = [{"name": option, "config_operation": 0, "value": value}]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    return connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": resources, "validate_only": False}).responses[0]


def test_topic_is_created_grown_and_deleted_through_a_broker_that_is_not_the_controller(connections: list[Connection]) -> None:
    name = fresh_name()
    created = create(connections[1], name, configs=[{"name": "retention.ms", "value": "7000"}])
    assert (created.error_code, created.num_partitions) == (0, 1)
    # The broker that was asked knows it when it has answered.
    assert describe(connections[1], named(name))[0].topic_id == created.topic_id
    assert create(connections[1], name).error_code == ErrorCode.topic_already_exists
    grown = connections[1].ask(
        CREATE_PARTITIONS, 3, {"topics": [{"name": name, "count": 3, "assignments": None}], "timeout_ms": 30_000, "validate_only": False}
    )
    assert grown.results[0].error_code == 0
    assert len(describe(connections[1], named(name))[0].partitions) == 3
    gone = connections[1].ask(DELETE_TOPICS, 6, {"topics": [{"name": None, "topic_id": created.topic_id}], "timeout_ms": 30_000})
    assert (gone.responses[0].error_code, gone.responses[0].name) == (0, name)
    assert describe(connections[1], named(name))[0].error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_every_version_is_answered_as_by_the_controller(connections: list[Connection], version: int) -> None:
    good, taken = fresh_name(), fresh_name()
    create(connections[0], taken)
    entries = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (good, taken, "or/ders")]
    answers = [
        connection.ask(CREATE_TOPICS, version, {"topics": entries, "timeout_ms": 30_000, "validate_only": True})
        for connection in connections
    ]
    by_name = [{topic.name: (topic.error_code, topic.error_message) for topic in answer.topics} for answer in answers]
    assert by_name[0] == by_name[1]
    assert [by_name[1][name][0] for name in (good, taken, "or/ders")] == [
        0,
        ErrorCode.topic_already_exists,
        ErrorCode.invalid_topic_exception,
    ]


def test_topic_is_created_because_it_was_asked_for_at_any_broker(connections: list[Connection]) -> None:
    names = [fresh_name() for _ in range(3)]
    found = describe(connections[1], *map(named, names), may_create=True)
    assert [(topic.error_code, topic.name, len(topic.partitions)) for topic in found] == [(0, name, 1) for name in names]
    assert describe(connections[1], named("or/ders"), may_create=True)[0].error_code == ErrorCode.invalid_topic_exception


def test_options_are_changed_at_any_broker_and_those_of_a_broker_at_itself(connections: list[Connection]) -> None:
    name = fresh_name()
    create(connections[1], name)
    assert increment(connections[1], 2, name, "retention.ms", "5000").error_code == 0
    assert configs_of(connections[1], 2, name)["retention.ms"] == "5000"
    assert increment(connections[1], 4, "2", "log.retention.ms", "123456").error_code == 0
    assert configs_of(connections[1], 4, "2")["log.retention.ms"] == "123456"
    assert configs_of(connections[0], 4, "1")["log.retention.ms"] != "123456"
    assert increment(connections[1], 4, "1", "log.retention.ms", "1").error_code == ErrorCode.invalid_request
    assert increment(connections[1], 8, "2", "root", "INFO").error_code == 0
    resources = [
        {"resource_type": kind, "resource_name": one, "configs": [{"name": "retention.ms", "value": "9000"}]}
        for kind, one in ((2, fresh_name()), (99, "x"), (2, name))
    ]
    answer = connections[1].ask(ALTER_CONFIGS, 2, {"resources": resources, "validate_only": False})
    assert [one.error_code for one in answer.responses] == [ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_request, 0]
    assert configs_of(connections[1], 2, name)["retention.ms"] == "9000"


def test_groups_are_looked_after_where_their_partition_is_led(connections: list[Connection]) -> None:
    topic = fresh_name()
    create(connections[0], topic)
    groups = [f"group-{number}" for number in range(12)]
    places = [[(one.error_code, one.node_id, one.port) for one in find(connection, *groups)] for connection in connections]
    assert places[0] == places[1]
    assert {(error_code, node_id) for error_code, node_id, _ in places[0]} == {(0, 1), (0, 2)}
    for group, (_, node_id, _) in zip(groups, places[0], strict=True):
        answers = [commit(connection, group, topic, 7) for connection in connections]
        assert answers[node_id - 1] == 0
        assert answers[2 - node_id] == ErrorCode.not_coordinator
        assert fetch(connections[node_id - 1], group, topic) == (0, 7)
        assert fetch(connections[2 - node_id], group, topic)[0] == ErrorCode.not_coordinator
    listed = [{group.group_id for group in connection.ask(LIST_GROUPS, 4, {"states_filter": []}).groups} for connection in connections]
    assert listed[0] | listed[1] >= set(groups)
    assert not listed[0] & listed[1]


def test_consumers_and_producers_find_their_way_from_any_broker(brokers: list[Broker]) -> None:
    topic = fresh_name()
    admin = AdminClient({"bootstrap.servers": brokers[1].bootstrap_servers})
    admin.create_topics([NewTopic(topic, 4, 1)], request_timeout=20)[topic].result(20)
    producer = Producer({"bootstrap.servers": brokers[1].bootstrap_servers, "enable.idempotence": True})
    for number in range(40):
        producer.produce(topic, str(number), partition=number % 4)
    assert producer.flush(20) == 0
    received = set()
    for number in range(3):  # groups on both brokers
        consumer = Consumer(
            {"bootstrap.servers": brokers[number % 2].bootstrap_servers, "group.id": f"g-{number}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        got: set[bytes | None] = set()
        for _ in range(100):
            got |= {message.value() for message in consumer.consume(100, timeout=0.2) if message.error() is None}
            if len(got) == 40:
                break
        consumer.close()
        received.add(len(got))
    assert received == {40}


def test_partition_that_another_broker_leads_is_refused_here(connections: list[Connection]) -> None:
    topic = fresh_name()
    assert (
        create(
            connections[1], topic, num_partitions=-1, replication_factor=-1, assignments=[{"partition_index": 0, "broker_ids": [1]}]
        ).error_code
        == 0
    )
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}]
    answer = connections[1].ask(LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": 0, "topics": asked})
    assert answer.topics[0].partitions[0].error_code in (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition)
    assert (
        connections[0].ask(LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": 0, "topics": asked}).topics[0].partitions[0].error_code
        == 0
    )


def test_no_two_producers_get_the_same_id_from_different_brokers(connections: list[Connection]) -> None:
    fields = {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    ids = [connection.ask(INIT_PRODUCER_ID, 4, fields).producer_id for _ in range(1_100) for connection in connections]
    assert len(set(ids)) == len(ids)


def test_all_brokers_are_described_by_each(connections: list[Connection]) -> None:
    answers = [connection.ask(DESCRIBE_CLUSTER, 1, {"endpoint_type": 1}) for connection in connections]
    assert [[broker.broker_id for broker in answer.brokers] for answer in answers] == [[1, 2]] * 2
    assert [answer.controller_id for answer in answers] == [1, 1]


@pytest.mark.parametrize(
    ("principal", "error"),
    [
        (b"", ErrorCode.principal_deserialization_failure),
        (b'{"broker_id": 7}', ErrorCode.principal_deserialization_failure),
        ({"broker_id": 7, "broker_epoch": 1}, ErrorCode.broker_id_not_registered),
        ({"broker_id": 2, "broker_epoch": 1}, ErrorCode.stale_broker_epoch),
    ],
)
def test_envelope_of_somebody_who_is_no_broker_is_refused(connections: list[Connection], principal: Any, error: ErrorCode) -> None:
    client = {"listener": "PLAINTEXT", "principal": "User:ANONYMOUS", "software_name": "x", "software_version": "1"}
    data = principal if isinstance(principal, bytes) else json.dumps(principal | client).encode()
    answer = connections[0].ask(ENVELOPE, 0, {"request_data": b"\x00\x13\x00\x07", "request_principal": data, "client_host_address": b""})
    assert answer.error_code == error
