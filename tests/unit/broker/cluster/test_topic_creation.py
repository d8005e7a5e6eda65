import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.topic_creation import MAX_PARTITIONS, TopicCreation
from millstream.errors import (
    InvalidConfig,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    TopicAlreadyExists,
)
from tests.unit.cluster.controller.test_controller import LONG_MS, Cluster, running, with_second_broker


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as cluster:
        yield cluster


def creation_in(cluster: Cluster, *, max_partitions: int = 100, **options: str) -> TopicCreation:
    settings = LiveSettings({name.replace("_", "."): value for name, value in options.items()}, node_id=1)
    return TopicCreation(cluster.controller, settings, max_partitions_in_all=lambda: max_partitions)


async def test_what_is_not_said_is_the_brokers_default(cluster: Cluster) -> None:
    topic = creation_in(cluster, num_partitions="5").plan("orders", configs={})
    assert [partition.replicas for partition in topic.partitions] == [(1,)] * 5


async def test_what_contradicts_itself_is_refused(cluster: Cluster) -> None:
    creation = creation_in(cluster)
    with pytest.raises(InvalidRequest):
        creation.plan("orders", partitions=1, configs={}, assignment=[(0, [1])])
    with pytest.raises(InvalidConfig):
        creation.plan("orders", configs={"retention.ms": "soon"})
    with pytest.raises(PolicyViolation):
        creation.plan("orders", partitions=MAX_PARTITIONS + 1, configs={})


async def test_topics_that_are_created_together_share_the_limit(cluster: Cluster) -> None:
    creation = creation_in(cluster, max_partitions=10)

    async def create(name: str) -> None:
        await creation.create(creation.plan(name, partitions=4, configs={}), timeout_ms=LONG_MS)

    outcomes = await asyncio.gather(*(create(f"t{number}") for number in range(4)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [PolicyViolation, PolicyViolation]
    assert len(cluster.watcher.view.topics) == 2
    assert creation._under_way == {}


async def test_names_that_collide_are_refused_also_while_the_other_is_being_created(cluster: Cluster) -> None:
    creation = creation_in(cluster)
    cluster.held_back.clear()
    other = asyncio.create_task(creation.create(creation.plan("a.b", configs={}), timeout_ms=LONG_MS))
    await asyncio.sleep(0)
    with pytest.raises(InvalidTopic):
        creation.plan("a_b", configs={})
    with pytest.raises(TopicAlreadyExists):
        await creation.create(creation.plan("a.b", configs={}), timeout_ms=LONG_MS)
    cluster.held_back.set()
    await other


async def test_there_is_always_room_for_the_topics_that_the_broker_makes_for_itself(cluster: Cluster) -> None:
    creation = creation_in(cluster, max_partitions=10)
    await creation.create(creation.plan("orders", partitions=10, configs={}), timeout_ms=LONG_MS)
    with pytest.raises(PolicyViolation, match="ulimit -n"):
        creation.plan("more", partitions=1, configs={})
    await creation.create(creation.plan("__consumer_offsets", partitions=50, configs={}), timeout_ms=LONG_MS)
    assert len(cluster.watcher.view.topics["__consumer_offsets"].partitions) == 50


async def test_the_default_number_of_replicas_is_obeyed(cluster: Cluster) -> None:
    with pytest.raises(InvalidReplicationFactor):
        creation_in(cluster, default_replication_factor="2").plan("orders", configs={})
    await with_second_broker(cluster)
    topic = creation_in(cluster, default_replication_factor="2").plan("orders", configs={})
    assert sorted(topic.partitions[0].replicas) == [1, 2]
