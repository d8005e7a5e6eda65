import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from millstream.broker.cluster.registration import Registration, prepare_tree
from millstream.cluster.controller import controller
from millstream.cluster.controller.controller import Controller
from millstream.cluster.controller.metadata_writer import MetadataWriter
from millstream.coordination import paths
from millstream.coordination.cluster_view import DEFAULT_BROKER, BrokerState, ClusterView, TopicState
from millstream.coordination.cluster_watcher import ClusterWatcher
from millstream.coordination.election import ControllerClaim
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.topic_header import TopicHeader
from millstream.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
    NotController,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from millstream.files import Files
from tests.manual_clock import ManualClock

LONG_MS = 20_000


@dataclass
class Cluster:
    """One broker, without logs."""

    coordination: EmbeddedCoordination
    watcher: ClusterWatcher
    writer: MetadataWriter
    controller: Controller
    claim: ControllerClaim | None
    held_back: asyncio.Event
    """Cleared: the broker does not take up what it sees."""

    async def create(self, name: str, *, partitions: int = 1, **configs: str) -> TopicState:
        own = {option.replace("_", "."): text for option, text in configs.items()}
        topic = self.controller.plan_topic(name, partitions=partitions, replication_factor=1, configs=own)
        await self.controller.create_topic(topic, timeout_ms=LONG_MS)
        return topic


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Cluster]:
    coordination = await EmbeddedCoordination.open(path, files=Files(), clock=ManualClock(), broker_session_name="b", is_synced=False)
    await prepare_tree(coordination, cluster_id="tests")
    await Registration(coordination, BrokerState(1, "localhost", 9092)).register()
    await coordination.create(paths.CONTROLLER_EPOCH, b"1")
    held_back = asyncio.Event()
    held_back.set()

    async def take_up(_view: ClusterView) -> None:
        await held_back.wait()

    watcher = ClusterWatcher(coordination, on_change=take_up)
    await watcher.load()
    writer = MetadataWriter(coordination, watcher, claim=lambda: made.claim)
    controller = Controller(coordination, watcher, writer)
    made = Cluster(coordination, watcher, writer, controller, ControllerClaim(1, 1, 0), held_back)
    following = asyncio.create_task(watcher.run())
    try:
        yield made
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await coordination.close()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as cluster:
        yield cluster


async def test_a_created_topic_is_in_the_view_and_in_the_tree(cluster: Cluster) -> None:
    planned = await cluster.create("orders", partitions=3)
    topic = cluster.watcher.view.topics["orders"]
    assert topic.topic_id == planned.topic_id
    assert [partition.leader for partition in topic.partitions] == [1, 1, 1]
    data, _ = await cluster.coordination.get(paths.topic("orders"))
    assert TopicHeader.decode("orders", data) == topic.header
    assert await cluster.coordination.children(paths.partitions("orders")) == ["0", "1", "2"]


async def test_a_topic_exists_once(cluster: Cluster) -> None:
    twin = cluster.controller.plan_topic("orders", partitions=1, replication_factor=1, configs={})
    await cluster.create("orders")
    with pytest.raises(TopicAlreadyExists):
        cluster.controller.plan_topic("orders", partitions=1, replication_factor=1, configs={})
    with pytest.raises(TopicAlreadyExists):
        await cluster.controller.create_topic(twin, timeout_ms=LONG_MS)
    with pytest.raises(InvalidTopic):
        cluster.controller.plan_topic("or/ders", partitions=1, replication_factor=1, configs={})


async def test_a_topic_that_is_not_taken_up_in_time_is_a_timeout(cluster: Cluster) -> None:
    cluster.held_back.clear()
    topic = cluster.controller.plan_topic("orders", partitions=1, replication_factor=1, configs={})
    with pytest.raises(RequestTimedOut):
        await cluster.controller.create_topic(topic, timeout_ms=0)
    cluster.held_back.set()
    assert await cluster.watcher.until(lambda view: "orders" in view.topics, timeout_ms=LONG_MS)


async def test_who_is_not_the_controller_writes_nothing(cluster: Cluster) -> None:
    topic = cluster.controller.plan_topic("orders", partitions=1, replication_factor=1, configs={})
    for claim in (None, ControllerClaim(1, 0, 99)):
        cluster.claim = claim
        with pytest.raises(NotController):
            await cluster.controller.create_topic(topic, timeout_ms=LONG_MS)
    assert await cluster.coordination.children(paths.TOPICS) == []


async def test_a_deleted_topic_is_gone(cluster: Cluster) -> None:
    topic = await cluster.create("orders")
    await cluster.controller.delete_topic(topic, timeout_ms=LONG_MS)
    assert cluster.watcher.view.topics == {}
    with pytest.raises(UnknownTopicOrPartition):
        await cluster.controller.delete_topic(topic, timeout_ms=LONG_MS)


async def test_deleting_a_topic_spares_a_later_one_of_the_same_name(cluster: Cluster) -> None:
    old = await cluster.create("orders")
    await cluster.controller.delete_topic(old, timeout_ms=LONG_MS)
    new = await cluster.create("orders")
    with pytest.raises(UnknownTopicOrPartition):
        await cluster.controller.delete_topic(old, timeout_ms=LONG_MS)
    assert cluster.watcher.view.topics["orders"].topic_id == new.topic_id


async def with_second_broker(cluster: Cluster) -> None:
    """Broker 2 is alive, broker 3 was once."""
    await cluster.coordination.create(paths.broker(2), BrokerState(2, "localhost", 9093).encode())
    await cluster.writer.write_states({}, {1: 10, 3: 30})
    assert await cluster.watcher.until(lambda view: 2 in view.brokers and 3 in view.lives, timeout_ms=LONG_MS)


async def test_replicas_are_on_different_brokers_and_those_that_are_alive_are_in_sync(cluster: Cluster) -> None:
    await with_second_broker(cluster)
    plan = cluster.controller.plan_topic
    two = plan("orders", partitions=4, replication_factor=2, configs={})
    assert {frozenset(state.replicas) for state in two.partitions} == {frozenset({1, 2})}
    assert {state.leader for state in two.partitions} == {1, 2}
    assert {state.in_sync_replicas == state.replicas for state in two.partitions} == {True}
    three = plan("orders", partitions=1, replication_factor=3, configs={}).partitions[0]
    assert (three.replicas[-1], sorted(three.in_sync_replicas)) == (3, [1, 2])
    with pytest.raises(InvalidReplicationFactor, match="only 3 broker"):
        plan("orders", partitions=1, replication_factor=4, configs={})


async def test_an_assignment_may_name_brokers_that_are_gone_but_not_only_those(cluster: Cluster) -> None:
    await with_second_broker(cluster)
    plan = partial(cluster.controller.plan_topic, "orders", partitions=1, replication_factor=1, configs={})
    state = plan(assignment={0: [3, 2, 1]}).partitions[0]
    assert (state.replicas, state.leader, state.in_sync_replicas) == ((3, 2, 1), 2, (2, 1))
    with pytest.raises(InvalidReplicaAssignment, match="none of the brokers for partition 1 is alive"):
        plan(assignment={0: [1], 1: [3]})
    with pytest.raises(InvalidReplicaAssignment, match="not registered"):
        plan(assignment={0: [1, 4]})
    topic = plan(assignment={0: [2, 1]})
    await cluster.controller.create_topic(topic, timeout_ms=LONG_MS)
    with pytest.raises(InvalidReplicaAssignment, match="same number of replicas"):
        cluster.controller.plan_partitions("orders", count=2, assignments=[[1]])
    grown = cluster.controller.plan_partitions("orders", count=4, assignments=None)
    assert [sorted(added.replicas) for added in grown.partitions] == [[1, 2]] * 4


async def test_new_partitions_of_a_topic_that_is_being_reassigned_have_as_many_replicas_as_the_others_will_have(cluster: Cluster) -> None:
    await with_second_broker(cluster)
    topic = cluster.controller.plan_topic("orders", partitions=1, replication_factor=1, configs={}, assignment={0: [1]})
    moving = topic.partitions[0]._replace(replicas=(2, 1), adding_replicas=(2,), removing_replicas=(1,))
    await cluster.controller.create_topic(replace(topic, partitions=(moving,)), timeout_ms=LONG_MS)
    grown = cluster.controller.plan_partitions("orders", count=2, assignments=None)
    assert len(grown.partitions[1].replicas) == 1


async def test_partitions_only_grow(cluster: Cluster) -> None:
    await cluster.create("orders", partitions=2)
    plan = cluster.controller.plan_partitions
    for count in (1, 2):
        with pytest.raises(InvalidPartitions):
            plan("orders", count=count, assignments=None)
    with pytest.raises(InvalidReplicaAssignment):
        plan("orders", count=4, assignments=[[1]])
    with pytest.raises(UnknownTopicOrPartition):
        plan("nothing", count=4, assignments=None)
    await cluster.controller.create_partitions(plan("orders", count=4, assignments=[[1], [1]]), timeout_ms=LONG_MS)
    assert len(cluster.watcher.view.topics["orders"].partitions) == 4


async def test_a_growth_planned_on_an_old_picture_is_refused(cluster: Cluster) -> None:
    await cluster.create("orders")
    stale = cluster.controller.plan_partitions("orders", count=2, assignments=None)
    await cluster.controller.create_partitions(cluster.controller.plan_partitions("orders", count=3, assignments=None), timeout_ms=LONG_MS)
    with pytest.raises(InvalidPartitions):
        await cluster.controller.create_partitions(stale, timeout_ms=LONG_MS)
    assert len(cluster.watcher.view.topics["orders"].partitions) == 3


def adding(name: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    return lambda current: {**current, name: "1"}


async def test_changes_of_a_topics_options_at_the_same_time_all_hold(cluster: Cluster) -> None:
    await cluster.create("orders")
    names = ["retention.bytes", "flush.messages", "flush.ms", "max.message.bytes", "file.delete.delay.ms", "segment.ms", "retention.ms"]
    alter = cluster.controller.alter_topic_configs
    await asyncio.gather(*(alter("orders", adding(name), timeout_ms=LONG_MS) for name in names))
    assert sorted(cluster.watcher.view.topics["orders"].configs) == sorted(names)
    with pytest.raises(UnknownTopicOrPartition):
        await cluster.controller.alter_topic_configs("nothing", dict, timeout_ms=LONG_MS)


async def test_changes_of_a_brokers_options_at_the_same_time_all_hold(cluster: Cluster) -> None:
    names = ["log.retention.ms", "log.retention.bytes", "message.max.bytes", "max.connections", "log.flush.interval.ms"]
    for broker in (DEFAULT_BROKER, "1"):
        alter = cluster.controller.alter_broker_configs
        await asyncio.gather(*(alter(broker, adding(name), timeout_ms=LONG_MS) for name in names))
        assert sorted(cluster.watcher.view.broker_configs[broker]) == sorted(names)


async def test_a_refused_change_writes_nothing(cluster: Cluster) -> None:
    await cluster.create("orders", retention_ms="5")

    def refuse(_current: Mapping[str, str]) -> Mapping[str, str]:
        raise InvalidPartitions("no")

    with pytest.raises(InvalidPartitions):
        await cluster.controller.alter_topic_configs("orders", refuse, timeout_ms=LONG_MS)
    assert cluster.watcher.view.topics["orders"].configs == {"retention.ms": "5"}


async def test_a_topic_waits_for_the_broker_that_is_about_to_be_registered_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    await cluster.coordination.delete(paths.broker(1))
    assert await cluster.watcher.until(lambda view: not view.brokers, timeout_ms=LONG_MS)
    waiting = asyncio.create_task(cluster.controller.wait_for_brokers())
    await asyncio.sleep(0)
    assert not waiting.done()
    await Registration(cluster.coordination, BrokerState(1, "localhost", 9092)).register()
    await waiting
    await cluster.create("orders")
    await cluster.coordination.delete(paths.broker(1))
    assert await cluster.watcher.until(lambda view: not view.brokers, timeout_ms=LONG_MS)
    monkeypatch.setattr(controller, "REGISTERED_WITHIN_MS", 1)
    with pytest.raises(RequestTimedOut):
        await cluster.controller.wait_for_brokers()


async def test_options_that_are_too_large_for_a_znode_are_refused(cluster: Cluster) -> None:
    large = {"retention.ms": " " * controller.MAX_CONFIGS_BYTES + "5"}
    with pytest.raises(InvalidConfig, match=r"most of them retention\.ms"):
        cluster.controller.plan_topic("orders", partitions=1, replication_factor=1, configs=large)
    await cluster.create("orders")
    with pytest.raises(InvalidConfig):
        await cluster.controller.alter_topic_configs("orders", lambda _configs: large, timeout_ms=LONG_MS)
    for _ in range(2):  # the znode is not there yet, and it is
        with pytest.raises(InvalidConfig):
            await cluster.controller.alter_broker_configs("1", lambda _configs: large, timeout_ms=LONG_MS)
        await cluster.controller.alter_broker_configs("1", lambda _configs: {"num.io.threads": "9"}, timeout_ms=LONG_MS)
