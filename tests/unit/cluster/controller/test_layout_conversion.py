"""Topics of an older release, all partitions inside their znodes: they come up as they were."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from millstream.cluster.controller.layout_conversion import LAYOUT, convert_layout
from millstream.coordination import paths
from millstream.coordination.election import ControllerClaim
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import TopicHeader
from millstream.errors import NotController
from tests.unit.cluster.controller.test_controller import LONG_MS, Cluster, running

OLD_PARTITION = {"replicas": [1], "leader": 1, "leader_epoch": 3, "in_sync_replicas": [1], "eligible_leaders": []}


def old_topic(number: int, *partitions: dict[str, object]) -> bytes:
    fields = {"topic_id": str(UUID(int=number)), "configs": {"retention.ms": "5"}, "partitions": partitions or [OLD_PARTITION]}
    return json.dumps(fields).encode()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """On a tree that an older release made: it does not say a layout."""
    async with running(tmp_path) as cluster:
        await cluster.coordination.set(paths.TOPICS, b"")
        yield cluster


async def test_a_tree_in_the_old_layout_comes_up_as_it_was(cluster: Cluster) -> None:
    tree = cluster.coordination
    await tree.create(paths.topic("one"), old_topic(7))
    copied = {**OLD_PARTITION, "replicas": [1, 2], "in_sync_replicas": [1, 2]}
    await tree.create(paths.topic("many"), old_topic(8, *([copied] * 1100)))
    await cluster.controller.finish_half_done()
    assert await cluster.watcher.until(lambda view: len(view.topics) == 2, timeout_ms=LONG_MS)
    one, many = cluster.watcher.view.topics["one"], cluster.watcher.view.topics["many"]
    assert (one.topic_id, one.configs, one.partitions) == (UUID(int=7), {"retention.ms": "5"}, (PartitionState((1,), 1, 3, (1,)),))
    assert many.partitions == (PartitionState((1, 2), 1, 3, (1,)),) * 1100, "nothing was copied to the others"
    assert (await tree.get(paths.TOPICS))[0] == LAYOUT
    assert cluster.watcher.view.unreadable_topics == frozenset()


async def test_it_is_done_once(cluster: Cluster) -> None:
    await cluster.controller.finish_half_done()
    await cluster.coordination.create(paths.topic("late"), old_topic(7))
    await cluster.controller.finish_half_done()
    assert (await cluster.coordination.get(paths.topic("late")))[0] == old_topic(7)


async def test_what_was_left_half_converted_is_converted(cluster: Cluster) -> None:
    tree = cluster.coordination
    await tree.create(paths.topic("one"), old_topic(7))
    await tree.create(paths.partition("one", 0), b"half", make_parents=True)
    await tree.create(paths.partition("one", 3), b"half")
    await cluster.controller.finish_half_done()
    assert await cluster.watcher.until(lambda view: "one" in view.topics, timeout_ms=LONG_MS)
    assert await tree.children(paths.partitions("one")) == ["0"]


async def test_a_topic_that_makes_no_sense_keeps_no_other_from_being_converted(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    tree = cluster.coordination
    wrong = old_topic(8, {**OLD_PARTITION, "leader": 9})
    await tree.create(paths.topic("wrong"), wrong)
    await tree.create(paths.topic("zebra"), old_topic(7))
    await cluster.controller.finish_half_done()
    assert await cluster.watcher.until(lambda view: "zebra" in view.topics, timeout_ms=LONG_MS)
    assert (await tree.get(paths.topic("wrong")))[0] == wrong
    assert "/brokers/topics/wrong of an older release cannot be converted" in caplog.text
    await tree.set(paths.topic("wrong"), old_topic(8))
    await cluster.controller.finish_half_done()
    assert await cluster.watcher.until(lambda view: "wrong" in view.topics, timeout_ms=LONG_MS), "the next controller tries again"


async def test_who_is_not_the_controller_converts_nothing(cluster: Cluster) -> None:
    await cluster.coordination.create(paths.topic("one"), old_topic(7))
    cluster.claim = ControllerClaim(1, 0, 99)
    with pytest.raises(NotController):
        await convert_layout(cluster.coordination, cluster.writer)
    data, _ = await cluster.coordination.get(paths.topic("one"))
    with pytest.raises(ValueError, match="phase is missing"):
        TopicHeader.decode("one", data)
