"""Three brokers as processes: what followers have on disk when leaders change, are killed and come back."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.batches import split_batches
from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import BrokersOnTree, brokers_on_tree
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own files and znodes"), pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokersOnTree]:
    with brokers_on_tree(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def produce(cluster: BrokersOnTree, topic: str, count: int, *, partition: int = 0, size: int = 100) -> None:
    """So many records, acknowledged by all that are in sync."""
    servers = ",".join(broker.bootstrap_servers for broker in cluster.nodes.values() if broker.is_running)
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 2, "log_level": 0})
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    for number in range(count):
        producer.produce(topic, b"%08d" % number + b"x" * size, partition=partition, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def content(cluster: BrokersOnTree, node_id: int, topic: str, partition: int = 0) -> bytes:
    """The batches of a replica, as they are on disk."""
    directory = cluster.nodes[node_id].partition_directory(topic, partition)
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def await_equal(cluster: BrokersOnTree, topic: str, *node_ids: int, partition: int = 0) -> bytes:
    """Wait until these brokers have the same; what it is."""
    wait_until(
        lambda: len({content(cluster, each, topic, partition) for each in node_ids}) == 1, f"{topic}-{partition} is the same everywhere"
    )
    return content(cluster, node_ids[0], topic, partition)


def await_in_sync(cluster: BrokersOnTree, topic: str, *node_ids: int, partition: int = 0) -> None:
    wait_until(lambda: set(cluster.state(topic, partition)["in_sync_replicas"]) == set(node_ids), f"{node_ids} are in sync")


def record_count(batches: bytes) -> int:
    return sum(header.record_count for header, _ in split_batches(batches))


def test_what_was_acknowledged_is_the_same_on_all_disks(cluster: BrokersOnTree) -> None:
    topic = cluster.create([1, 2, 3], [2, 3, 1], [3, 1, 2], min_insync_replicas="2")
    for partition in range(3):
        produce(cluster, topic, 3000, partition=partition)
        assert record_count(await_equal(cluster, topic, 1, 2, 3, partition=partition)) == 3000
        assert set(cluster.state(topic, partition)["in_sync_replicas"]) == {1, 2, 3}


def test_a_follower_that_was_away_catches_up_and_is_in_sync_again(cluster: BrokersOnTree) -> None:
    victim = next(node_id for node_id in cluster.nodes if node_id != cluster.controller())
    leader, other = (node_id for node_id in cluster.nodes if node_id != victim)
    topic = cluster.create([leader, other, victim], min_insync_replicas="2", segment_bytes=str(2 << 20))
    produce(cluster, topic, 100)
    cluster.kill(victim)
    produce(cluster, topic, 20_000, size=1000)
    await_in_sync(cluster, topic, leader, other)
    cluster.start(victim)
    await_in_sync(cluster, topic, leader, other, victim)
    assert record_count(await_equal(cluster, topic, leader, other, victim)) == 20_100


def test_a_leader_that_was_killed_cuts_off_what_nobody_else_has(cluster: BrokersOnTree) -> None:
    victim = next(node_id for node_id in cluster.nodes if node_id != cluster.controller())
    heir, other = (node_id for node_id in cluster.nodes if node_id != victim)
    topic = cluster.create([victim, heir, other], min_insync_replicas="2")
    produce(cluster, topic, 1000)
    shared = await_equal(cluster, topic, victim, heir, other)
    cluster.kill(victim)
    # What it had taken with acks=1 and not handed on when it was killed: whole batches of its own epoch.
    header, first = next(iter(split_batches(shared)))
    lost = bytearray(first)
    lost[:8] = record_count(shared).to_bytes(8, "big")
    log = next(cluster.nodes[victim].partition_directory(topic).glob("*.log"))
    log.write_bytes(shared + bytes(lost))
    assert header.leader_epoch == 0
    produce(cluster, topic, 500)
    cluster.start(victim)
    await_in_sync(cluster, topic, victim, heir, other)
    assert record_count(await_equal(cluster, topic, victim, heir, other)) == 1500
    assert "where its history leaves the leader's" in cluster.nodes[victim].output
