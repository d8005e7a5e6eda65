"""A partition moves from two brokers to a third one, and each of those involved is killed at each step, while a producer writes.

    asked       nothing is copied yet: the target is away
    copying     some of it is on the target, which is held back by a throttle
    arriving    the target has joined one of the partitions, and the others let theirs go

Nothing is lost, nothing is there twice, and the move finishes, or is cancelled and leaves what there was.
"""

import pytest
from confluent_kafka import Producer

from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import BrokersOnTree
from tests.cluster.reassigning import (
    DEADLINE_S,
    PARTITIONS,
    await_moved,
    await_progress,
    away,
    has_files,
    listed,
    others,
    reassign,
    under_load,
)
from tests.connection import INCREMENTAL_ALTER_CONFIGS
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own files and znodes"), pytest.mark.slow]

BROKER = 4
SET, DELETE = 0, 1
LARGE = 60
"""Records of 50 kB in each partition: more than a follower asks for at once."""
VICTIMS = ("controller", "leader", "source", "target")


def roles_of(cluster: BrokersOnTree) -> dict[str, int]:
    """Which broker is what in a move; the controller has no part in it."""
    controller = cluster.controller()
    return dict(zip(VICTIMS, [controller, *others(cluster, controller)], strict=True))


def large_topic(cluster: BrokersOnTree, *replicas: int) -> str:
    """With numbers below zero in it, so that those of the load come after them."""
    topic = cluster.create(*[list(replicas)] * len(PARTITIONS), follower_replication_throttled_replicas="*")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for number in range(-LARGE, 0):
        for partition in PARTITIONS:
            producer.produce(topic, b"%-50000d" % number, partition=partition)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    return topic


def throttle(cluster: BrokersOnTree, node_id: int, *, is_on: bool) -> None:
    """Let the broker copy next to nothing; or as much as it can."""
    change = {
        "name": "follower.replication.throttled.rate",
        "config_operation": SET if is_on else DELETE,
        "value": "1000" if is_on else None,
    }
    resource = {"resource_type": BROKER, "resource_name": str(node_id), "configs": [change]}
    fields = {"resources": [resource], "validate_only": False}
    wait_until(
        lambda: cluster.ask(INCREMENTAL_ALTER_CONFIGS, 1, fields, asked=node_id).responses[0].error_code == 0,
        "the rate",
        deadline_s=DEADLINE_S,
    )


def has_some(cluster: BrokersOnTree, node_id: int, topic: str) -> bool:
    """Whether the broker has copied something of the topic."""
    folders = [cluster.nodes[node_id].partition_directory(topic, number) for number in PARTITIONS]
    return any(log.stat().st_size for folder in folders for log in folder.glob("*.log"))


def is_anything_at(cluster: BrokersOnTree, topic: str, target: int) -> bool:
    return any(tuple(cluster.state(topic, number)["replicas"]) == (target,) for number in PARTITIONS)


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_move_survives_the_death_of_each_of_those_involved_at_each_step(cluster: BrokersOnTree, victim: str) -> None:
    roles = roles_of(cluster)
    leader, source, target, number = roles["leader"], roles["source"], roles["target"], roles[victim]
    topic = large_topic(cluster, leader, source)
    with under_load(cluster, topic) as load:
        throttle(cluster, target, is_on=True)
        with away(cluster, target):
            assert reassign(cluster, topic, [target]) == [0, 0, 0]
            if victim != "target":
                with away(cluster, number):
                    await_progress(load)
        wait_until(lambda: has_some(cluster, target, topic), "something is copied", deadline_s=DEADLINE_S)
        with away(cluster, number):
            await_progress(load)
            assert len(listed(cluster, topic)) == 3, "nothing has arrived yet"
        throttle(cluster, target, is_on=False)
        wait_until(lambda: is_anything_at(cluster, topic, target), "something has arrived", deadline_s=DEADLINE_S)
        with away(cluster, number):
            pass
        await_moved(cluster, topic, target)


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_move_that_is_cancelled_leaves_what_there_was_whoever_dies_then(cluster: BrokersOnTree, victim: str) -> None:
    roles = roles_of(cluster)
    leader, source, target, number = roles["leader"], roles["source"], roles["target"], roles[victim]
    topic = large_topic(cluster, leader, source)
    with under_load(cluster, topic) as load:
        throttle(cluster, target, is_on=True)
        assert reassign(cluster, topic, [target]) == [0, 0, 0]
        wait_until(lambda: has_some(cluster, target, topic), "something is copied", deadline_s=DEADLINE_S)
        assert reassign(cluster, topic, None) == [0, 0, 0]
        with away(cluster, number):
            await_progress(load)
            assert listed(cluster, topic) == []
        throttle(cluster, target, is_on=False)
        await_moved(cluster, topic, leader, source)
        assert not has_files(cluster, target, topic)
