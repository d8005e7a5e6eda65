"""Two brokers on one ZooKeeper: until there is replication, nothing claims to have more than one copy."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA
from tests.cluster.server_process import ServerProcess
from tests.connection import CREATE_PARTITIONS, CREATE_TOPICS, FIND_COORDINATOR, METADATA, Connection
from tests.topics import create_topic, fresh_name, produce
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker, tree_of

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka replicates")


@pytest.fixture(scope="module")
def brokers(zookeeper: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ZooKeeperBroker]]:
    """Two brokers of one cluster, the first being the controller."""
    made = [ZooKeeperBroker(tmp_path_factory.mktemp("broker"), zookeeper.address, node_id=number) for number in (1, 2)]
    made[1].coordination = made[0].coordination
    for broker in made:
        broker.start()
    with made[0].connect() as connection:
        wait_until(lambda: len(connection.ask(METADATA, 12, {"topics": []}).brokers) == 2, "both know each other")
    yield made
    for broker in made:
        broker.kill()


@pytest.fixture
def connection(brokers: list[ZooKeeperBroker]) -> Iterator[Connection]:
    with brokers[0].connect() as connection:
        yield connection


def create(connection: Connection, name: str, **fields: object) -> Any:
    entry = {"name": name, "num_partitions": -1, "replication_factor": -1, **fields}
    return connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000}).topics[0]


def partitions(connection: Connection, name: str) -> Any:
    answer = connection.ask(METADATA, 12, {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False})
    return answer.topics[0].partitions


@pytest.mark.parametrize(
    "fields",
    [
        {"num_partitions": 1, "replication_factor": 2},
        {"num_partitions": 1, "replication_factor": 3},
        {"assignments": [{"partition_index": 0, "broker_ids": [1, 2]}]},
    ],
)
def test_a_topic_with_more_than_one_replica_is_refused(connection: Connection, fields: dict[str, object]) -> None:
    refusal = create(connection, fresh_name(), **fields)
    assert refusal.error_code == ErrorCode.invalid_replication_factor
    assert "there is no replication yet" in refusal.error_message


def test_partitions_with_more_than_one_replica_are_refused(brokers: list[ZooKeeperBroker], connection: Connection) -> None:
    topic = create_topic(brokers[0])
    entry = {"name": topic, "count": 2, "assignments": [{"broker_ids": [1, 2]}]}
    refusal = connection.ask(CREATE_PARTITIONS, 3, {"topics": [entry], "timeout_ms": 30_000}).results[0]
    assert refusal.error_code == ErrorCode.invalid_replication_factor
    assert "there is no replication yet" in refusal.error_message


def test_who_does_not_say_how_many_replicas_gets_one(connection: Connection) -> None:
    name = fresh_name()
    created = create(connection, name, num_partitions=2)
    assert (created.error_code, created.num_partitions, created.replication_factor) == (0, 2, 1)
    assert [len(partition.isr_nodes) for partition in partitions(connection, name)] == [1, 1]
    connection.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    wait_until(lambda: partitions(connection, "__consumer_offsets"), "the topic of offsets is there")
    assert {len(partition.replica_nodes) for partition in partitions(connection, "__consumer_offsets")} == {1}


def test_a_topic_of_an_older_version_does_not_claim_copies_that_do_not_exist(
    brokers: list[ZooKeeperBroker], connection: Connection
) -> None:
    topic = fresh_name()
    created = create(
        connection,
        topic,
        assignments=[{"partition_index": 0, "broker_ids": [1]}],
        configs=[{"name": "min.insync.replicas", "value": "2"}],
    )
    assert created.error_code == 0
    with tree_of(brokers[0].coordination) as tree:
        content = json.loads(tree.get(f"/brokers/topics/{topic}")[0])
        content["partitions"][0] |= {"replicas": [1, 2], "in_sync_replicas": [1, 2]}
        tree.set(f"/brokers/topics/{topic}", json.dumps(content).encode())
    wait_until(lambda: list(partitions(connection, topic)[0].replica_nodes) == [1, 2], "the broker has seen it")
    assert list(partitions(connection, topic)[0].isr_nodes) == [1]
    assert produce(connection, topic, encode_batch([b"v"])).error_code == ErrorCode.not_enough_replicas
    assert produce(connection, topic, encode_batch([b"v"]), acks=1).error_code == 0
