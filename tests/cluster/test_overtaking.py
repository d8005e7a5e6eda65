"""Three brokers as processes: nothing waits for the logs of a large topic, which take seconds to be made."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import BrokersOnTree, brokers_on_tree
from tests.connection import CREATE_TOPICS, DELETE_TOPICS, METADATA
from tests.topics import LATEST, fresh_name, list_offset, produce
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own files and znodes"), pytest.mark.slow]

PARTITIONS = 600


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokersOnTree]:
    with brokers_on_tree(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def create_large(cluster: BrokersOnTree, name: str, first: int, second: int) -> int:
    """Create a topic on two brokers; how that was answered."""
    pairs = [[first, second], [second, first]]
    assignments = [{"partition_index": number, "broker_ids": pairs[number % 2]} for number in range(PARTITIONS)]
    entry = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments, "configs": []}
    with cluster.nodes[second].connect(timeout_s=120) as connection:
        return int(connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 100_000}).topics[0].error_code)


@contextmanager
def large_topic(cluster: BrokersOnTree, first: int, second: int) -> Iterator[tuple[str, "Future[int]"]]:
    """A topic that is in the tree, and whose logs are being made on two brokers in the block; how its creation is answered."""
    name = fresh_name("large")
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(create_large, cluster, name, first, second)
        path = f"/cluster/brokers/topics/{name}"
        wait_until(lambda: path in cluster.tree.paths and not cluster.tree.content(path)["phase"], "the topic is written")
        yield name, answer


def known_partitions(cluster: BrokersOnTree, node_id: int, topic: str) -> int:
    """How many partitions of a topic a broker shows."""
    with cluster.nodes[node_id].connect() as connection:
        asked = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False}
        return len(connection.ask(METADATA, 12, asked).topics[0].partitions)


def kept(data: Path, topic: str) -> list[str]:
    """The directories of logs of a topic that is not deleted."""
    return sorted(path.name for path in data.glob(f"{topic}-*") if path.name.removeprefix(f"{topic}-").isdecimal())


def test_a_leader_is_replaced_while_the_logs_of_a_large_topic_are_made(cluster: BrokersOnTree) -> None:
    controller = cluster.controller()
    victim, heir = (node_id for node_id in cluster.nodes if node_id != controller)
    topic = cluster.create([victim, heir, controller], min_insync_replicas="1")
    with large_topic(cluster, controller, heir) as (large, answer):
        cluster.kill(victim)
        wait_until(lambda: cluster.leader(topic) == heir, "the other follower is elected")
        with cluster.nodes[heir].connect() as connection:
            wait_until(lambda: produce(connection, topic, encode_batch([b"value"])).error_code == 0, "it leads")
        assert not answer.done(), "all that happened before the logs were made"
        assert known_partitions(cluster, controller, large) in (0, PARTITIONS), "never a part of them"
        assert answer.result(120) == 0
    # The controller answers when it can serve the topic, and so can the broker that was asked.
    for node_id in (controller, heir):
        assert known_partitions(cluster, node_id, large) == PARTITIONS
        with cluster.nodes[node_id].connect() as connection:
            led = range(0 if node_id == controller else 1, PARTITIONS, 2)
            assert {int(list_offset(connection, large, LATEST, partition=number).error_code) for number in led[-20:]} == {0}
    cluster.start(victim)


def test_a_topic_is_deleted_and_created_again_while_its_logs_are_made(cluster: BrokersOnTree) -> None:
    controller = cluster.controller()
    other = next(node_id for node_id in cluster.nodes if node_id != controller)
    with large_topic(cluster, controller, other) as (large, answer), cluster.nodes[other].connect() as connection:
        wait_until(lambda: cluster.nodes[controller].partition_directory(large, 0).exists(), "the first log is there")
        asked = {"topics": [{"name": large, "topic_id": None}], "timeout_ms": 30_000}
        wait_until(lambda: int(connection.ask(DELETE_TOPICS, 6, asked).responses[0].error_code) == 0, "the topic is deleted")
        assert f"/cluster/brokers/topics/{large}" not in cluster.tree.paths
        assert answer.result(60) == 0, "it was created, and nobody waits for its logs any more"
        entry = {"name": large, "num_partitions": 2, "replication_factor": 3, "assignments": [], "configs": []}
        assert int(connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000}).topics[0].error_code) == 0
        for node_id in (controller, other):
            data = cluster.nodes[node_id].data
            wait_until(lambda data=data: kept(data, large) == [f"{large}-0", f"{large}-1"], "only the new topic has logs")  # type: ignore[misc]
            assert not list(data.glob(f"{large}*stray*"))
