"""Three brokers: transactions whose partition gets another leader in the middle, and whose coordinators are on all of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.brokers import IS_KAFKA, Broker
from tests.cluster.brokers import MillstreamBrokers
from tests.connection import DESCRIBE_PRODUCERS, FIND_COORDINATOR, METADATA
from tests.topics import create_assigned_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="starts several brokers of its own")

OPTIONS = {"transaction.state.log.num.partitions": 6, "zookeeper.session.timeout.ms": 4_000, "auto.leader.rebalance.enable": "false"}
IDS = [f"id-{number}" for number in range(12)]
TRANSACTION = 1
FIRST_LEADER = 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MillstreamBrokers]:
    with MillstreamBrokers(tmp_path, OPTIONS) as cluster:
        yield cluster


def coordinators(broker: Broker) -> dict[str, int]:
    """The brokers that coordinate transactional ids, as far as there are any yet."""
    with broker.connect() as connection:
        found = connection.ask(FIND_COORDINATOR, 4, {"key_type": TRANSACTION, "coordinator_keys": IDS}).coordinators
    return {one.key: one.node_id for one in found if one.error_code == 0}


def partition(broker: Broker, topic: str) -> Any:
    with broker.connect() as connection:
        asked = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False}
        return connection.ask(METADATA, 12, asked).topics[0].partitions[0]


def open_transactions(broker: Broker, topic: str) -> set[int]:
    """Where the transactions begin that are open at the leader."""
    with broker.connect() as connection:
        answer = connection.ask(DESCRIBE_PRODUCERS, 0, {"topics": [{"name": topic, "partition_indexes": [0]}]})
    described = answer.topics[0].partitions[0]
    assert described.error_code == 0
    return {one.current_txn_start_offset for one in described.active_producers} - {-1}


def send(producer: Producer, topic: str, value: str) -> None:
    producer.produce(topic, value, partition=0)
    assert producer.flush(90) == 0


def read_committed(cluster: MillstreamBrokers, topic: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    while len(values) < count:
        [message] = consumer.consume(1, 90)
        assert message.error() is None
        values.append((message.value() or b"").decode())
    consumer.close()
    return values


def content(broker: Broker, topic: str, suffix: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(broker.partition_directory(topic).glob(f"*{suffix}"))]


def test_transactions_go_on_when_the_leader_of_their_partition_is_killed(cluster: MillstreamBrokers) -> None:
    first, second, third = cluster.nodes.values()
    with first.connect() as connection:
        topic = create_assigned_topic(connection, [FIRST_LEADER, 1, 3])
    wait_until(lambda: len(coordinators(first)) == len(IDS), "coordinators")
    by_coordinator = {node_id: transactional_id for transactional_id, node_id in coordinators(first).items()}
    assert set(by_coordinator) == {1, 2, 3}
    producers = {
        node_id: Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id})
        for node_id, transactional_id in sorted(by_coordinator.items())
    }
    for node_id, producer in producers.items():
        producer.init_transactions(90)
        producer.begin_transaction()
        send(producer, topic, f"{node_id} ends before")
        (producer.abort_transaction if node_id == 2 else producer.commit_transaction)(90)
        producer.begin_transaction()
        send(producer, topic, f"{node_id} begins before")
    begun = open_transactions(second, topic)
    assert len(begun) == 3
    second.kill()
    for node_id, producer in producers.items():
        send(producer, topic, f"{node_id} goes on after")
    leader = cluster.nodes[partition(first, topic).leader_id]
    assert leader is not second
    assert open_transactions(leader, topic) == begun
    for node_id, producer in producers.items():
        (producer.abort_transaction if node_id == 1 else producer.commit_transaction)(90)
        producer.begin_transaction()
        send(producer, topic, f"{node_id} begins after")
        producer.commit_transaction(90)
    committed = read_committed(cluster, topic, 9)
    assert sorted(committed) == sorted(
        ["1 ends before", "3 ends before"]
        + [f"{node_id} {what}" for node_id in (2, 3) for what in ("begins before", "goes on after")]
        + [f"{node_id} begins after" for node_id in (1, 2, 3)]
    )
    second.start()
    wait_until(lambda: len(partition(first, topic).isr_nodes) == 3, "all replicas are in sync", deadline_s=90)
    for suffix in (".log", ".txnindex"):
        assert content(second, topic, suffix) == content(first, topic, suffix) == content(third, topic, suffix)
