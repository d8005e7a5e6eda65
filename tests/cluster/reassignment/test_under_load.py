"""Four brokers as processes: partitions move between them while an idempotent producer writes, and brokers are killed at every step.

Whatever happens, the move finishes or is cancelled; what was acknowledged is there once and in order; and who keeps a partition no longer
has no files of it.
"""

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import BrokersOnTree
from tests.cluster.reassigning import (
    PARTITIONS,
    await_moved,
    await_progress,
    away,
    has_files,
    listed,
    others,
    reassign,
    strays,
    under_load,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own files and znodes"), pytest.mark.slow]


def test_partitions_move_to_other_brokers_under_load(cluster: BrokersOnTree) -> None:
    topic = cluster.create(*[[1, 2]] * 3)
    with under_load(cluster, topic):
        assert reassign(cluster, topic, [3, 4]) == [0, 0, 0]
        await_moved(cluster, topic, 3, 4)
        assert reassign(cluster, topic, [4, 1, 2]) == [0, 0, 0]
        await_moved(cluster, topic, 4, 1, 2)
        assert reassign(cluster, topic, [1]) == [0, 0, 0]
        await_moved(cluster, topic, 1)
        assert {cluster.leader(topic, number) for number in PARTITIONS} == {1}


def test_the_leader_is_killed_while_its_partitions_are_to_be_copied(cluster: BrokersOnTree) -> None:
    """The new replica is away meanwhile, so that nothing is finished before."""
    leader, follower, target = others(cluster, cluster.controller())
    topic = cluster.create(*[[leader, follower]] * 3)
    with under_load(cluster, topic) as load:
        with away(cluster, target):
            assert reassign(cluster, topic, [target, follower]) == [0, 0, 0]
            assert [list(one.adding_replicas) for one in listed(cluster, topic)] == [[target]] * 3, "it is waited for"
            cluster.kill(leader)
            await_progress(load)
            assert {cluster.leader(topic, number) for number in PARTITIONS} == {follower}
        await_moved(cluster, topic, target, follower)
        cluster.start(leader)
        await_moved(cluster, topic, target, follower)
    assert strays(cluster, leader, topic) == 3, "what it had is not deleted unseen"


def test_the_new_replica_is_killed_while_it_copies(cluster: BrokersOnTree) -> None:
    leader, follower, target = others(cluster, cluster.controller())
    topic = cluster.create(*[[leader, follower]] * 3)
    with under_load(cluster, topic):
        assert reassign(cluster, topic, [target]) == [0, 0, 0]
        cluster.kill(target)
        cluster.start(target)
        await_moved(cluster, topic, target)


def test_a_move_to_a_dead_broker_waits_and_is_cancelled(cluster: BrokersOnTree) -> None:
    leader, follower, target = others(cluster, cluster.controller())
    topic = cluster.create(*[[leader, follower]] * 3)
    cluster.kill(target)
    with under_load(cluster, topic) as load:
        assert reassign(cluster, topic, [target, leader]) == [0, 0, 0]
        await_progress(load)
        assert len(listed(cluster, topic)) == 3
        assert reassign(cluster, topic, None) == [0, 0, 0]
        await_moved(cluster, topic, leader, follower)
    cluster.start(target)
    assert not has_files(cluster, target, topic)


def test_the_controller_is_killed_while_partitions_move(cluster: BrokersOnTree) -> None:
    """It leads them, too. Who is elected finds in the znodes what is under way."""
    controller = cluster.controller()
    target, *rest = others(cluster, controller)
    topic = cluster.create(*[[controller, rest[0]]] * 3)
    with under_load(cluster, topic) as load:
        with away(cluster, target):
            assert reassign(cluster, topic, [target, rest[1]]) == [0, 0, 0]
            cluster.kill(controller)
            await_progress(load)
            assert len(listed(cluster, topic)) == 3
        await_moved(cluster, topic, target, rest[1])
    cluster.start(controller)


def test_the_old_leader_is_killed_when_it_is_not_needed_any_more(cluster: BrokersOnTree) -> None:
    """Around the moment of completion: it may or may not have seen that, and deleted what it had."""
    leader, *targets = others(cluster, cluster.controller())
    topic = cluster.create(*[[leader]] * 3)
    with under_load(cluster, topic):
        assert reassign(cluster, topic, targets) == [0, 0, 0]
        wait_until(lambda: any(tuple(cluster.state(topic, number)["replicas"]) == tuple(targets) for number in PARTITIONS), "one is moved")
        cluster.kill(leader)
        cluster.start(leader)
        await_moved(cluster, topic, *targets)
