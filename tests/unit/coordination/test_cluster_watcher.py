import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from uuid import UUID

import pytest

from millstream.coordination import paths
from millstream.coordination.cluster_view import DEFAULT_BROKER, BrokerState, ClusterView, TopicState
from millstream.coordination.cluster_watcher import ClusterWatcher
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import SessionState
from millstream.coordination.partition_state import PartitionState
from millstream.files import Files
from tests.manual_clock import ManualClock

LONG_MS = 20_000
TOPIC = TopicState("orders", UUID(int=7), (PartitionState.first((1,)),))


@pytest.fixture
async def coordination(tmp_path: Path) -> AsyncIterator[EmbeddedCoordination]:
    opened = await EmbeddedCoordination.open(tmp_path, files=Files(), clock=ManualClock(), broker_session_name="b", is_synced=False)
    for path in paths.PERSISTENT_PARENTS:
        await opened.create(path)
    await opened.create(paths.CLUSTER_ID, b"cluster")
    yield opened
    await opened.close()


class Follower:
    """A watcher that runs, and what it showed its broker before everybody else."""

    def __init__(self, coordination: EmbeddedCoordination) -> None:
        self.shown: list[ClusterView] = []
        self.has_shown = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.watcher = ClusterWatcher(coordination, on_change=self._take_up)

    async def _take_up(self, view: ClusterView) -> None:
        self.shown.append(view)
        self.has_shown.set()
        await self.gate.wait()

    async def sees(self, topic: str) -> bool:
        return await self.watcher.until(lambda view: topic in view.topics, timeout_ms=LONG_MS)


@pytest.fixture
async def follower(coordination: EmbeddedCoordination) -> AsyncIterator[Follower]:
    follower = Follower(coordination)
    await follower.watcher.load()
    running = asyncio.create_task(follower.watcher.run())
    yield follower
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_everything_is_there_after_the_first_load(coordination: EmbeddedCoordination) -> None:
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    await coordination.create(paths.broker(1), BrokerState(1, "h", 1).encode(), ephemeral=True)
    await coordination.create(paths.broker_config(None), b'{"log.retention.ms": "1"}')
    await coordination.create(paths.CONTROLLER, b'{"broker_id": 1}')
    follower = Follower(coordination)
    await follower.watcher.load()
    view = follower.watcher.view
    assert (view.cluster_id, view.controller_id, list(view.brokers), list(view.topics)) == ("cluster", 1, [1], ["orders"])
    assert view.broker_configs == {DEFAULT_BROKER: {"log.retention.ms": "1"}}
    assert follower.shown == [view]


async def test_topics_come_change_and_go(coordination: EmbeddedCoordination, follower: Follower) -> None:
    watcher = follower.watcher
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.sees("orders")
    await coordination.set(paths.topic("orders"), TOPIC.encode())
    assert await watcher.until(lambda view: view.topics["orders"].version == 1, timeout_ms=LONG_MS)
    await coordination.set(paths.topic("orders"), TOPIC.encode())
    assert await watcher.until(lambda view: view.topics["orders"].version == 2, timeout_ms=LONG_MS)
    await coordination.delete(paths.topic("orders"))
    assert await watcher.until(lambda view: not view.topics, timeout_ms=LONG_MS)
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.sees("orders")


async def test_nothing_is_taken_over_from_another_tree_than_that_of_the_start(
    coordination: EmbeddedCoordination, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.sees("orders")
    shown = len(follower.shown)
    await coordination.delete(paths.CLUSTER_ID)
    await coordination.delete(paths.topic("orders"))
    assert await follower.watcher.catch_up(("topics", ""), timeout_ms=LONG_MS)
    await coordination.create(paths.CLUSTER_ID, b"cluster")
    for listener in coordination._listeners:
        listener(SessionState.CONNECTED)
    assert await follower.watcher.catch_up(("topics", ""), timeout_ms=LONG_MS)
    assert list(follower.watcher.view.topics) == ["orders"]
    assert len(follower.shown) == shown
    assert caplog.text.count("/cluster_id makes no sense") == 2, "once gone, once another"


class Counted(dict[str, TopicState]):
    """Topics that must not be gone through."""

    def items(self) -> NoReturn:
        pytest.fail("all topics were looked at")

    __iter__ = values = items


async def test_an_id_is_looked_up_without_going_through_all_topics(coordination: EmbeddedCoordination) -> None:
    watcher = Follower(coordination).watcher
    by_id = {TOPIC.topic_id: TOPIC}
    watcher.view = replace(ClusterView(), topics=Counted(orders=TOPIC), topics_by_id=by_id, partition_count=1)
    thief, new = replace(TOPIC, name="thief"), replace(TOPIC, name="new", topic_id=UUID(int=9))
    assert watcher._without_borrowed_ids({"thief": thief, "new": new}) == {"thief": None, "new": new}


async def test_brokers_and_the_controller_come_and_go(coordination: EmbeddedCoordination, follower: Follower) -> None:
    watcher = follower.watcher
    for _ in range(2):
        await coordination.create(paths.CONTROLLER, b'{"broker_id": 4}')
        await coordination.create(paths.broker(4), BrokerState(4, "h", 1).encode())
        assert await watcher.until(lambda view: view.controller_id == 4 and 4 in view.brokers, timeout_ms=LONG_MS)
        await coordination.delete(paths.CONTROLLER)
        await coordination.delete(paths.broker(4))
        assert await watcher.until(lambda view: view.controller_id == -1 and not view.brokers, timeout_ms=LONG_MS)


async def test_options_of_brokers_come_change_go_and_come_again(coordination: EmbeddedCoordination, follower: Follower) -> None:
    watcher = follower.watcher
    path = paths.broker_config(1)
    for _ in range(2):
        await coordination.create(path, b'{"log.retention.ms": "1"}')
        assert await watcher.until(lambda view: view.broker_configs == {"1": {"log.retention.ms": "1"}}, timeout_ms=LONG_MS)
        await coordination.set(path, b'{"log.retention.ms": "2"}')
        assert await watcher.until(lambda view: view.broker_configs == {"1": {"log.retention.ms": "2"}}, timeout_ms=LONG_MS)
        await coordination.delete(path)
        assert await watcher.until(lambda view: view.broker_configs == {}, timeout_ms=LONG_MS)


async def test_no_view_is_shown_before_the_broker_has_taken_it_up(coordination: EmbeddedCoordination, follower: Follower) -> None:
    follower.gate.clear()
    follower.has_shown.clear()
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    waiting = asyncio.create_task(follower.sees("orders"))
    async with asyncio.timeout(20):
        await follower.has_shown.wait()
    assert "orders" in follower.shown[-1].topics
    assert "orders" not in follower.watcher.view.topics
    assert not waiting.done()
    follower.gate.set()
    assert await waiting
    assert "orders" in follower.watcher.view.topics


async def test_waiting_ends_with_the_time_and_leaves_nothing_behind(follower: Follower) -> None:
    assert not await follower.watcher.until(lambda _view: False, timeout_ms=1)
    assert follower.watcher._waiting == []


async def test_catching_up_waits_for_what_was_written_before(coordination: EmbeddedCoordination, follower: Follower) -> None:
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.watcher.catch_up(("topic", "orders"), timeout_ms=LONG_MS)
    assert "orders" in follower.watcher.view.topics
    follower.gate.clear()
    await coordination.set(paths.topic("orders"), TOPIC.encode())
    assert not await follower.watcher.catch_up(("topic", "orders"), timeout_ms=1)


@pytest.mark.parametrize("nonsense", [b"", b"[]", b"{}", b"\xff\xfe", b'{"partitions": 3}'])
async def test_a_znode_that_makes_no_sense_does_not_end_the_broker(
    coordination: EmbeddedCoordination, follower: Follower, nonsense: bytes
) -> None:
    await coordination.create(paths.topic("broken"), nonsense)
    await coordination.create(paths.CONTROLLER, nonsense)
    await coordination.create(f"{paths.BROKER_IDS}/none", nonsense)
    await coordination.create(paths.broker(9), nonsense)
    await coordination.create(f"{paths.BROKER_CONFIGS}/none", nonsense)
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.sees("orders")
    assert list(follower.watcher.view.topics) == ["orders"]
    assert follower.watcher.view.brokers == {}
    assert follower.watcher.view.unreadable_topics == {"broken"}
    await coordination.set(paths.topic("broken"), replace(TOPIC, topic_id=UUID(int=8)).encode())
    assert await follower.sees("broken")
    assert not follower.watcher.view.unreadable_topics


async def test_after_a_lost_connection_everything_is_read_again(
    coordination: EmbeddedCoordination, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.sees("orders")
    stale: list[tuple[str, str]] = []
    really_read = follower.watcher._read

    async def read(asked: set[tuple[str, str]]) -> ClusterView:
        stale.extend(asked)
        return await really_read(asked)

    monkeypatch.setattr(follower.watcher, "_read", read)
    for listener in coordination._listeners:
        listener(SessionState.CONNECTED)
    assert await follower.watcher.until(lambda _view: bool(stale), timeout_ms=LONG_MS)
    assert ("topic", "orders") in stale
    assert ("topics", "") in stale


async def test_a_broker_that_comes_often_does_not_leave_watches_behind(coordination: EmbeddedCoordination, follower: Follower) -> None:
    await coordination.create(paths.broker(1), BrokerState(1, "h", 1).encode())
    for number in range(5):
        await coordination.create(paths.broker(2), BrokerState(2, "h", number).encode())
        assert await follower.watcher.until(lambda view: 2 in view.brokers, timeout_ms=LONG_MS)
        await coordination.delete(paths.broker(2))
        assert await follower.watcher.until(lambda view: 2 not in view.brokers, timeout_ms=LONG_MS)
    # One for each of the three lists, one for the controller.
    assert len(coordination.keeper.watches) == 4


@pytest.mark.parametrize("nonsense", [b"", b"{}", b'{"partitions": 3}'])
async def test_a_topic_is_not_deleted_because_its_znode_makes_no_sense_any_more(
    coordination: EmbeddedCoordination, follower: Follower, nonsense: bytes
) -> None:
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.watcher.until(lambda view: "orders" in view.topics, timeout_ms=LONG_MS)
    await coordination.set(paths.topic("orders"), nonsense)
    assert await follower.watcher.catch_up(("topic", "orders"), timeout_ms=LONG_MS)
    assert follower.watcher.view.topics["orders"].topic_id == TOPIC.topic_id
    await coordination.delete(paths.topic("orders"))
    assert await follower.watcher.until(lambda view: "orders" not in view.topics, timeout_ms=LONG_MS)


def topic_with(**fields: object) -> bytes:
    """The znode of the topic with fields of its partition replaced."""
    content = json.loads(TOPIC.encode())
    content["partitions"][0] |= fields
    return json.dumps(content).encode()


async def test_what_a_znode_said_before_stays_and_what_is_wrong_is_logged_once_for_each_write(
    coordination: EmbeddedCoordination, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    await coordination.create(paths.broker_config(None), b'{"log.retention.ms": "7"}')
    await coordination.create(paths.CONTROLLER, b'{"broker_id": 4}')
    assert await follower.watcher.catch_up(("configs", ""), timeout_ms=LONG_MS)
    await coordination.set(paths.topic("orders"), topic_with(leader_epoch="0"))
    await coordination.set(paths.broker_config(None), b'{"log.retention.ms": 7}')
    await coordination.set(paths.CONTROLLER, b'{"broker_id": "4"}')
    for _ in range(3):
        for stale in (("topic", "orders"), ("config", DEFAULT_BROKER), ("controller", ""), ("topics", ""), ("configs", "")):
            assert await follower.watcher.catch_up(stale, timeout_ms=LONG_MS)
    view = follower.watcher.view
    assert (view.topics["orders"], view.controller_id) == (TOPIC, 4)
    assert view.broker_configs == {DEFAULT_BROKER: {"log.retention.ms": "7"}}
    reported = [record.getMessage() for record in caplog.records if "makes no sense" in record.getMessage()]
    assert len(reported) == 3
    assert "/brokers/topics/orders makes no sense and is not taken over: partitions[0].leader_epoch must be a whole number" in caplog.text
    await coordination.set(paths.topic("orders"), topic_with(leader_epoch=True))
    assert await follower.watcher.catch_up(("topic", "orders"), timeout_ms=LONG_MS)
    assert caplog.text.count("/brokers/topics/orders makes no sense") == 2
    await coordination.set(paths.topic("orders"), topic_with(leader_epoch=1))
    assert await follower.watcher.until(lambda view: view.topics["orders"].partitions[0].leader_epoch == 1, timeout_ms=LONG_MS)


async def test_options_that_make_no_sense_do_not_take_the_others_with_them(coordination: EmbeddedCoordination, follower: Follower) -> None:
    wrong = {"retention.ms": "5", "no.such.option": "1", "flush.ms": "often"}
    await coordination.create(paths.topic("orders"), replace(TOPIC, configs=wrong).encode())
    await coordination.create(paths.broker_config(1), b'{"log.retention.ms": "5", "node.id": "7", "max.connections": "many"}')
    assert await follower.sees("orders")
    assert await follower.watcher.until(lambda view: "1" in view.broker_configs, timeout_ms=LONG_MS)
    assert follower.watcher.view.topics["orders"].configs == {"retention.ms": "5"}
    assert follower.watcher.view.broker_configs["1"] == {"log.retention.ms": "5"}
    await coordination.set(paths.topic("orders"), replace(TOPIC, configs={"retention.ms": "never"}).encode())
    assert await follower.watcher.until(lambda view: view.topics["orders"].version == 1, timeout_ms=LONG_MS)
    assert follower.watcher.view.topics["orders"].configs == {"retention.ms": "5"}


async def test_a_topic_keeps_its_id_and_its_partitions_until_it_is_deleted(coordination: EmbeddedCoordination, follower: Follower) -> None:
    two = replace(TOPIC, partitions=TOPIC.partitions * 2)
    await coordination.create(paths.topic("orders"), two.encode())
    assert await follower.sees("orders")
    for nonsense in (TOPIC, replace(two, topic_id=UUID(int=9))):
        await coordination.set(paths.topic("orders"), nonsense.encode())
        assert await follower.watcher.catch_up(("topic", "orders"), timeout_ms=LONG_MS)
        assert follower.watcher.view.topics["orders"] == two
    await coordination.delete(paths.topic("orders"))
    await coordination.create(paths.topic("orders"), replace(TOPIC, topic_id=UUID(int=9)).encode())
    assert await follower.watcher.until(lambda view: UUID(int=9) in view.topics_by_id, timeout_ms=LONG_MS)
    assert len(follower.watcher.view.topics["orders"].partitions) == 1


async def test_an_id_belongs_to_one_topic(coordination: EmbeddedCoordination, follower: Follower) -> None:
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.sees("orders")
    await coordination.create(paths.topic("a-copy"), TOPIC.encode())
    assert await follower.watcher.until(lambda view: view.unreadable_topics == {"a-copy"}, timeout_ms=LONG_MS)
    assert follower.watcher.view.topics_by_id == {TOPIC.topic_id: TOPIC}


@pytest.mark.parametrize("name", ["x" * 250, "with space", "\u00fcmlaut"])
async def test_a_topic_that_cannot_have_its_name_is_not_taken_up(coordination: EmbeddedCoordination, follower: Follower, name: str) -> None:
    await coordination.create(paths.topic(name), TOPIC.encode())
    assert await follower.watcher.until(lambda view: bool(view.unreadable_topics), timeout_ms=LONG_MS)
    assert follower.watcher.view.topics == {}


async def test_lists_that_were_removed_come_back(coordination: EmbeddedCoordination, follower: Follower) -> None:
    for path in (paths.TOPICS, paths.BROKER_IDS, paths.BROKER_CONFIGS):
        await coordination.delete(path)
    for stale in (("topics", ""), ("brokers", ""), ("configs", "")):
        assert await follower.watcher.catch_up(stale, timeout_ms=LONG_MS)
    for path in (paths.TOPICS, paths.BROKER_IDS, paths.BROKER_CONFIGS):
        await coordination.create(path)
    await coordination.create(paths.topic("orders"), TOPIC.encode())
    assert await follower.sees("orders")
    await coordination.create(paths.broker(4), BrokerState(4, "h", 1).encode())
    assert await follower.watcher.until(lambda view: 4 in view.brokers, timeout_ms=LONG_MS)
