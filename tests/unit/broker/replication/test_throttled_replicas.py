"""Two brokers, and a quota that one byte uses up: what is throttled waits, everything else goes on."""

from pathlib import Path

import pytest

from tests.unit.broker.replication.replica_broker import ReplicaCluster, replica_cluster
from tests.waiting import eventually

SMALL_FETCHES = {"replica.fetch.max.bytes": "65536"}
SLOW = "1"
"""A byte per second: nothing follows the first fetch for eleven seconds."""
COUNT = 20


def fill(cluster: ReplicaCluster, index: int) -> None:
    for _ in range(COUNT):
        cluster.brokers[1].append(b"x" * 40_000, index=index)


def end(cluster: ReplicaCluster, node_id: int, index: int) -> int:
    return cluster.brokers[node_id].partition(index).log.log_end_offset


@pytest.mark.parametrize("replicas", ["0:2", "*"])
async def test_follower_leaves_throttled_partitions_out_while_the_quota_is_used_up(tmp_path: Path, replicas: str) -> None:
    async with replica_cluster(tmp_path, options=SMALL_FETCHES) as cluster:
        follower = cluster.brokers[2]
        follower.configure({"follower.replication.throttled.rate": SLOW})
        await cluster.lead(1, epoch=0, partitions=2, in_sync=(1,), follower_replication_throttled_replicas=replicas)
        fill(cluster, 0)
        await eventually(lambda: follower.quotas.times_not_asked > 0)
        assert follower.quotas.bytes_taken > 0
        fill(cluster, 1)
        if replicas != "*":
            await cluster.until_equal(1)
        assert 0 < end(cluster, 2, 0) < COUNT, "a fetch passes, and the rest waits"
        follower.configure({})
        await cluster.until_equal(0)
        await cluster.until_equal(1)


async def test_leader_leaves_throttled_partitions_of_a_follower_that_is_behind_out_of_its_answers(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path, options=SMALL_FETCHES) as cluster:
        leader = cluster.brokers[1]
        leader.configure({"leader.replication.throttled.rate": SLOW})
        await cluster.lead(1, epoch=0, partitions=2, in_sync=(1,), leader_replication_throttled_replicas="0:1")
        fill(cluster, 0)
        await eventually(lambda: leader.quotas.times_not_sent > 0)
        assert leader.quotas.bytes_sent > 0
        fill(cluster, 1)
        await cluster.until_equal(1)
        assert 0 < end(cluster, 2, 0) < COUNT, "a fetch passes, and the rest waits"
        leader.configure({})
        await cluster.until_equal(0)


async def test_follower_that_is_in_sync_is_counted_and_never_held_up(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path, options=SMALL_FETCHES) as cluster:
        leader, follower = cluster.brokers.values()
        leader.configure({"leader.replication.throttled.rate": SLOW})
        follower.configure({"follower.replication.throttled.rate": SLOW})
        await cluster.lead(1, epoch=0, leader_replication_throttled_replicas="*", follower_replication_throttled_replicas="*")
        for _ in range(3):
            fill(cluster, 0)
            await cluster.until_equal()
        assert leader.quotas.bytes_sent == follower.quotas.bytes_taken >= len(leader.content()), "batches that were cut off count, too"
        assert (leader.quotas.times_not_sent, follower.quotas.times_not_asked) == (0, 0)


async def test_replicas_that_no_option_names_cost_nothing(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        leader, follower = cluster.brokers.values()
        leader.configure({"leader.replication.throttled.rate": SLOW})
        follower.configure({"follower.replication.throttled.rate": SLOW})
        at_leader, at_follower = "0:2,1:1", "0:1,1:2"
        await cluster.lead(
            1,
            epoch=0,
            in_sync=(1,),
            leader_replication_throttled_replicas=at_leader,
            follower_replication_throttled_replicas=at_follower,
        )
        fill(cluster, 0)
        await cluster.until_equal()
        assert (leader.quotas.bytes_sent, follower.quotas.bytes_taken) == (0, 0)
