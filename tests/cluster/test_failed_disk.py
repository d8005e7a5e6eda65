"""A broker with two data directories, of which one fails: what has replicas elsewhere is served there."""

from functools import partial
from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import brokers_on_tree
from tests.cluster.reassigning import reassign
from tests.cluster.test_followers import await_in_sync, produce
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own files and znodes"), pytest.mark.slow]


def test_a_leader_whose_disk_fails_makes_room_for_another(tmp_path: Path) -> None:
    second = tmp_path / "second"
    with brokers_on_tree(tmp_path, count=2, flags={1: ["--data", str(second)]}) as cluster:
        topic = cluster.create([1, 2], segment_bytes=str(1 << 20), min_insync_replicas="1")
        produce(cluster, topic, 10)
        await_in_sync(cluster, topic, 1, 2)
        directory = next(path / f"{topic}-0" for path in (cluster.nodes[1].data, second) if (path / f"{topic}-0").exists())
        directory.rename(directory.with_name("gone"))
        produce(cluster, topic, 30, size=100_000)
        wait_until(lambda: cluster.leader(topic) == 2, "broker 2 leads")


def test_a_replica_whose_disk_failed_is_moved_away_and_back_to_another_disk(tmp_path: Path) -> None:
    """Neither waits for the disk; the rest of a log that is on it is in nobody's way while the broker runs."""
    second = tmp_path / "second"
    with brokers_on_tree(tmp_path, count=3, flags={3: ["--data", str(second)]}) as cluster:
        disks = (cluster.nodes[3].data, second)
        topic = cluster.create([1, 3], segment_bytes=str(1 << 20), min_insync_replicas="1")
        produce(cluster, topic, 10)
        await_in_sync(cluster, topic, 1, 3)
        failing = next(path for path in disks if (path / f"{topic}-0").exists())
        (failing / f"{topic}-0").rename(failing / "gone")
        produce(cluster, topic, 30, size=100_000)
        wait_until(lambda: cluster.state(topic)["in_sync_replicas"] == [1], "broker 3 is out of it", deadline_s=60)
        for target in ([1, 2], [3, 2]):
            assert reassign(cluster, topic, target, numbers=[0]) == [0]
            # As broker 3 sees it: one that went and came back between two of its views has never been away.
            wait_until(
                partial(lambda wanted: cluster.metadata(topic, asked=3)[0].in_sync == wanted, frozenset(target)),
                f"it is on {target}",
                deadline_s=60,
            )
        assert [path for path in disks if (path / f"{topic}-0").exists()] == [path for path in disks if path != failing]
        wait_until(lambda: cluster.leader(topic) == 3, "broker 3 leads")
        produce(cluster, topic, 5)
