"""A broker with two data directories, of which one fails: what has replicas elsewhere is served there."""

from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import Cluster
from tests.cluster.test_followers import await_in_sync, produce
from tests.cluster.tree_in_thread import TreeInThread
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own files and znodes"), pytest.mark.slow]


class TwoDirectories(ZooKeeperBroker):
    """A broker with a second data directory."""

    @property
    def second(self) -> Path:
        return self.data.with_name("second")

    def _command(self) -> list[str]:
        return [*super()._command(), "--data", str(self.second)]


def test_a_leader_whose_disk_fails_makes_room_for_another(tmp_path: Path) -> None:
    tree = TreeInThread(tmp_path / "tree")
    tree.start()
    leader = TwoDirectories(tmp_path / "1", tree.address, node_id=1)
    cluster = Cluster(tree, {1: leader, 2: ZooKeeperBroker(tmp_path / "2", tree.address, node_id=2)})
    try:
        for broker in cluster.brokers.values():
            broker.coordination = f"{tree.address}/cluster"
        cluster.start(1, 2)
        topic = cluster.create([1, 2], segment_bytes=str(1 << 20), min_insync_replicas="1")
        produce(cluster, topic, 10)
        await_in_sync(cluster, topic, 1, 2)
        directory = next(path / f"{topic}-0" for path in (leader.data, leader.second) if (path / f"{topic}-0").exists())
        directory.rename(directory.with_name("gone"))
        produce(cluster, topic, 30, size=100_000)
        wait_until(lambda: cluster.leader(topic) == 2, "broker 2 leads")
    finally:
        for broker in cluster.brokers.values():
            broker.kill()
        tree.stop()
