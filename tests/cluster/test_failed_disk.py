"""A broker with two data directories, of which one fails: what has replicas elsewhere is served there."""

from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import brokers_on_tree
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
