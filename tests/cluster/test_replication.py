"""Three brokers and a partition on all of them: what is acknowledged is on every in-sync replica, byte for byte."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, Broker
from tests.cluster.brokers import MillstreamBrokers
from tests.connection import DELETE_RECORDS, METADATA, PRODUCE, Connection
from tests.topics import create_assigned_topic, fetch, list_offset, produce, produce_fields, read_all
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="starts several brokers of its own")

OPTIONS = {"replica.lag.time.max.ms": 3000, "replica.fetch.wait.max.ms": 100, "log.flush.offset.checkpoint.interval.ms": 200}
LATEST = -1


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    with MillstreamBrokers(tmp_path_factory.mktemp("replicas"), OPTIONS) as cluster:
        yield list(cluster.nodes.values())


@pytest.fixture
def connection(brokers: list[Broker]) -> Iterator[Connection]:
    """To the first broker, which leads all partitions of these tests."""
    with brokers[0].connect() as connection:
        yield connection


def created(connection: Connection, replicas: tuple[int, ...] = (1, 2, 3), **configs: str) -> str:
    """A topic with one partition, led by the first of its replicas."""
    return create_assigned_topic(connection, replicas, **configs)


def in_sync(connection: Connection, topic: str) -> set[int]:
    described = connection.ask(METADATA, 12, {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False})
    return {replica for partition in described.topics[0].partitions for replica in partition.isr_nodes}  # none if it is not known yet


def knows(connection: Connection, topic: str) -> bool:
    return 1 in in_sync(connection, topic)


def content(broker: Broker, topic: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(broker.partition_directory(topic).glob("*.log")))


def are_identical(brokers: list[Broker], topic: str) -> bool:
    contents = [content(broker, topic) for broker in brokers]
    return len(contents[0]) > 0 and all(one == contents[0] for one in contents)


def send(connection: Connection, topic: str, *values: bytes, acks: int = -1) -> Any:
    return produce(connection, topic, encode_batch(list(values)), acks=acks)


def test_acknowledged_records_are_identical_on_all_disks(brokers: list[Broker], connection: Connection) -> None:
    topic = created(connection, min_insync_replicas="3")
    producer = Producer({"bootstrap.servers": ",".join(broker.bootstrap_servers for broker in brokers), "linger.ms": 5, "acks": "all"})
    failed: list[object] = []
    for number in range(3_000):
        producer.produce(topic, f"{number}".encode(), on_delivery=lambda error, _message: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failed == []
    assert are_identical(brokers, topic), "acknowledged means that every in-sync replica has it"
    assert [record.value for record in read_all(brokers[0], topic)] == [f"{number}".encode() for number in range(3_000)]
    assert list_offset(connection, topic, LATEST).offset == 3_000

    def checkpointed(broker: Broker) -> bool:
        path = broker.partition_directory(topic).parent / "replication-offset-checkpoint"
        return path.exists() and f"{topic} 0 3000" in path.read_text().splitlines()

    wait_until(lambda: all(checkpointed(broker) for broker in brokers), "the high watermark is known on every broker")


def test_follower_that_was_killed_leaves_the_in_sync_set_and_comes_back(brokers: list[Broker], connection: Connection) -> None:
    topic = created(connection, min_insync_replicas="2")
    assert send(connection, topic, b"a").error_code == 0
    brokers[2].kill()
    assert send(connection, topic, b"b").error_code == 0, "it is answered once the dead follower has left the in-sync set"
    wait_until(lambda: in_sync(connection, topic) == {1, 2}, "the dead one is out")
    brokers[2].start()
    wait_until(lambda: in_sync(connection, topic) == {1, 2, 3}, "it is back")
    assert send(connection, topic, b"c").error_code == 0
    wait_until(lambda: are_identical(brokers, topic), "it has what it missed")
    assert [record.value for record in read_all(brokers[0], topic)] == [b"a", b"b", b"c"]


def test_follower_refers_clients_to_the_leader(brokers: list[Broker], connection: Connection) -> None:
    topic = created(connection)
    elsewhere = created(connection, (1,))
    with brokers[1].connect() as other:
        for name in (topic, elsewhere):
            wait_until(partial(knows, other, name), "the other broker knows the topic")
            answer = other.ask(PRODUCE, 10, produce_fields(name, encode_batch([b"v"])))
            found = answer.responses[0].partition_responses[0]
            assert found.error_code == ErrorCode.not_leader_or_follower
            assert found.current_leader.leader_id == 1
            assert [(endpoint.node_id, endpoint.port) for endpoint in answer.node_endpoints] == [(1, brokers[0].address[1])]
            assert fetch(other, name, 0, version=10).error_code == ErrorCode.not_leader_or_follower
        assert fetch(other, elsewhere, 0).error_code == ErrorCode.not_leader_or_follower
        assert fetch(other, topic, 0).error_code == 0, "from version 11 on consumers may read from followers (KIP-392)"


def test_records_are_deleted_on_all_replicas_before_it_is_answered(brokers: list[Broker], connection: Connection) -> None:
    topic = created(connection)
    for value in (b"a", b"b", b"c"):
        assert send(connection, topic, value).error_code == 0
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 2}]}]
    answer = connection.ask(DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": 20_000}).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, 2)


def test_too_few_replicas_in_sync_refuse_acks_all(brokers: list[Broker], connection: Connection) -> None:
    topic = created(connection, (1, 3), min_insync_replicas="2")
    assert send(connection, topic, b"a").error_code == 0
    brokers[2].kill()
    try:
        wait_until(lambda: in_sync(connection, topic) == {1}, "the leader is alone")
        assert send(connection, topic, b"b").error_code == ErrorCode.not_enough_replicas
        assert send(connection, topic, b"c", acks=1).error_code == 0
        assert list_offset(connection, topic, LATEST).offset == 1, "what one has alone is not committed"
    finally:
        brokers[2].start()
    wait_until(lambda: in_sync(connection, topic) == {1, 3}, "it is back")
    wait_until(lambda: list_offset(connection, topic, LATEST).offset == 2, "and so the rest is committed")
