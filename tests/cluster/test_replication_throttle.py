"""A partition that moves to another broker no faster than a quota allows, as the brokers' own counters show it."""

from collections.abc import Iterator

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import BrokersOnTree, brokers_on_tree
from tests.connection import INCREMENTAL_ALTER_CONFIGS
from tests.monitoring.published import FLAGS, series
from tests.topics import produce_to_leader
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="reads Millstream's own counters"), pytest.mark.slow]

BROKER = 4
ALTER_PARTITION_REASSIGNMENTS = 45
SET, DELETE = 0, 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokersOnTree]:
    with brokers_on_tree(tmp_path_factory.mktemp("quotas"), count=2, flags={node_id: list(FLAGS) for node_id in (1, 2)}) as made:
        yield made


def set_rate(cluster: BrokersOnTree, node_id: int, side: str, rate: int | None) -> None:
    """Set or remove the rate of a broker, as kafka-reassign-partitions does."""
    operation = DELETE if rate is None else SET
    change = {"name": f"{side}.replication.throttled.rate", "config_operation": operation, "value": None if rate is None else str(rate)}
    resource = {"resource_type": BROKER, "resource_name": str(node_id), "configs": [change]}
    answer = cluster.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False}, asked=node_id)
    assert answer.responses[0].error_code == 0, answer


def move(cluster: BrokersOnTree, topic: str, *replicas: int) -> None:
    partition = {"partition_index": 0, "replicas": list(replicas)}
    fields = {"timeout_ms": 30_000, "topics": [{"name": topic, "partitions": [partition]}]}
    answer = cluster.ask(ALTER_PARTITION_REASSIGNMENTS, 0, fields)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0), answer


def counted(cluster: BrokersOnTree, node_id: int, side: str, what: str) -> float:
    return series(cluster.nodes[node_id])[f"kafka_server_{side}replication_{what}_total"]


def is_held_back(cluster: BrokersOnTree, node_id: int, side: str) -> bool:
    return counted(cluster, node_id, side, "byte") > 0 and counted(cluster, node_id, side, "throttled") > 0


def test_throttled_move_is_held_back_on_either_side_and_goes_on_when_the_rates_are_removed(cluster: BrokersOnTree) -> None:
    options = {f"{side}_replication_throttled_replicas": replicas for side, replicas in (("leader", "0:1"), ("follower", "*"))}
    topic = cluster.create([1], **options)
    produce_to_leader(cluster.nodes[1], topic, [b"x" * 50_000] * 200, batch_size=4)
    set_rate(cluster, 1, "leader", 1000)
    move(cluster, topic, 1, 2)
    wait_until(lambda: is_held_back(cluster, 1, "leader"), "the leader leaves the partition out")
    assert counted(cluster, 2, "follower", "byte") == 0
    set_rate(cluster, 2, "follower", 1000)
    set_rate(cluster, 1, "leader", None)
    wait_until(lambda: is_held_back(cluster, 2, "follower"), "the follower does not ask for it")
    assert cluster.state(topic)["in_sync_replicas"] == [1], "a thousand bytes a second have not brought ten megabytes"
    set_rate(cluster, 2, "follower", None)
    wait_until(lambda: set(cluster.state(topic)["in_sync_replicas"]) == {1, 2}, "the move is over", deadline_s=60)
