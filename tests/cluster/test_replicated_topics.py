"""Two brokers on one ZooKeeper: topics get as many replicas as they are asked for, on different brokers."""

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.cluster.brokers import MillstreamBrokers
from tests.cluster.server_process import ServerProcess
from tests.connection import CREATE_PARTITIONS, CREATE_TOPICS, FIND_COORDINATOR, METADATA, Connection
from tests.topics import fresh_name
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="the brokers are Millstream's own")


@pytest.fixture(scope="module")
def brokers(zookeeper: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[MillstreamBroker]]:
    """Two brokers of one cluster, the first being the controller."""
    where = f"{zookeeper.address}/{fresh_name()}"
    with MillstreamBrokers(tmp_path_factory.mktemp("cluster"), {}, zookeeper=where, count=2) as cluster:
        yield list(cluster.nodes.values())


@pytest.fixture
def connection(brokers: list[MillstreamBroker]) -> Iterator[Connection]:
    with brokers[0].connect() as connection:
        yield connection


def create(connection: Connection, name: str, **fields: object) -> Any:
    entry = {"name": name, "num_partitions": -1, "replication_factor": -1, **fields}
    return connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000}).topics[0]


def partitions(connection: Connection, name: str) -> Any:
    answer = connection.ask(METADATA, 12, {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False})
    return answer.topics[0].partitions


def test_replicas_are_on_different_brokers_and_both_brokers_say_so(brokers: list[MillstreamBroker], connection: Connection) -> None:
    name = fresh_name()
    created = create(connection, name, num_partitions=4, replication_factor=2)
    assert (created.error_code, created.replication_factor) == (0, 2)
    assert [sorted(partition.replica_nodes) for partition in partitions(connection, name)] == [[1, 2]] * 4
    assert {partition.replica_nodes[0] for partition in partitions(connection, name)} == {1, 2}
    with brokers[1].connect() as other:
        wait_until(lambda: len(partitions(other, name)) == 4, "the other broker has taken it up")
        assert [sorted(partition.replica_nodes) for partition in partitions(other, name)] == [[1, 2]] * 4


def test_more_replicas_than_brokers_are_refused(connection: Connection) -> None:
    refusal = create(connection, fresh_name(), num_partitions=1, replication_factor=3)
    assert refusal.error_code == ErrorCode.invalid_replication_factor
    assert "only 2 broker(s) are registered" in refusal.error_message


def test_new_partitions_have_as_many_replicas_as_the_others(connection: Connection) -> None:
    name = fresh_name()
    assert create(connection, name, assignments=[{"partition_index": 0, "broker_ids": [2, 1]}]).error_code == 0
    entry: dict[str, object] = {"name": name, "count": 2, "assignments": [{"broker_ids": [1]}]}
    refusal = connection.ask(CREATE_PARTITIONS, 3, {"topics": [entry], "timeout_ms": 30_000}).results[0]
    assert refusal.error_code == ErrorCode.invalid_replica_assignment
    grown = connection.ask(CREATE_PARTITIONS, 3, {"topics": [entry | {"assignments": None}], "timeout_ms": 30_000}).results[0]
    assert grown.error_code == 0
    assert sorted(partitions(connection, name)[1].replica_nodes) == [1, 2]


def test_who_does_not_say_how_many_gets_one_and_the_brokers_own_topics_get_as_many_as_there_are_brokers(connection: Connection) -> None:
    name = fresh_name()
    created = create(connection, name, num_partitions=2)
    assert (created.error_code, created.num_partitions, created.replication_factor) == (0, 2, 1)
    connection.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    wait_until(lambda: partitions(connection, "__consumer_offsets"), "the topic of offsets is there")
    assert {len(partition.replica_nodes) for partition in partitions(connection, "__consumer_offsets")} == {2}
