import asyncio
import json
from dataclasses import replace
from typing import NoReturn
from uuid import UUID

import pytest

from millstream.coordination import paths
from millstream.coordination.change_log import Change, ChangeLog
from millstream.coordination.cluster_view import DEFAULT_BROKER, BrokerState
from millstream.coordination.cluster_watcher import BROKERS
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import Create, Delete, SetData
from millstream.zookeeper.errors import ConnectionLost
from tests.topic_znodes import change, create_topic, delete_topic, set_header, set_partition, topic_creations
from tests.unit.coordination.following import LONG_MS, MOVED, TOPIC, Follower, Reads, reconnect


async def test_everything_is_there_after_the_first_load(coordination: EmbeddedCoordination) -> None:
    await create_topic(coordination, TOPIC)
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
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    await set_header(coordination, "orders", TOPIC.header.encode())
    assert await watcher.until(lambda view: view.topics["orders"].version == 1, timeout_ms=LONG_MS)
    await set_header(coordination, "orders", TOPIC.header.encode())
    assert await watcher.until(lambda view: view.topics["orders"].version == 2, timeout_ms=LONG_MS)
    await delete_topic(coordination, "orders")
    assert await watcher.until(lambda view: not view.topics, timeout_ms=LONG_MS)
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")


async def test_nothing_is_taken_over_from_another_tree_than_that_of_the_start(
    coordination: EmbeddedCoordination, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    shown = len(follower.shown)
    await coordination.delete(paths.CLUSTER_ID)
    await delete_topic(coordination, "orders")
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    await coordination.create(paths.CLUSTER_ID, b"cluster")
    reconnect(coordination)
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert list(follower.watcher.view.topics) == ["orders"]
    assert len(follower.shown) == shown
    assert caplog.text.count("/cluster_id makes no sense") == 2, "once gone, once another"


async def test_brokers_and_the_controller_come_and_go(coordination: EmbeddedCoordination, follower: Follower) -> None:
    watcher = follower.watcher
    for _ in range(2):
        await coordination.create(paths.CONTROLLER, b'{"broker_id": 4}')
        await coordination.create(paths.broker(4), BrokerState(4, "h", 1).encode())
        assert await watcher.until(lambda view: view.controller_id == 4 and 4 in view.brokers, timeout_ms=LONG_MS)
        await coordination.delete(paths.CONTROLLER)
        await coordination.delete(paths.broker(4))
        assert await watcher.until(lambda view: view.controller_id == -1 and not view.brokers, timeout_ms=LONG_MS)


async def test_a_broker_that_is_starting_is_not_there_yet(coordination: EmbeddedCoordination, follower: Follower) -> None:
    watcher, before = follower.watcher, set(follower.watcher.view.brokers)
    starting = BrokerState(8, "h", 1, is_starting=True)
    await coordination.create(paths.broker(8), starting.encode(), ephemeral=True)
    assert await watcher.catch_up(BROKERS, timeout_ms=LONG_MS)
    assert set(watcher.view.brokers) == before
    await coordination.multi(
        [Delete(paths.broker(8)), Create(paths.broker(8), starting._replace(is_starting=False).encode(), ephemeral=True)]
    )
    assert await watcher.until(lambda view: 8 in view.brokers, timeout_ms=LONG_MS)


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
    await create_topic(coordination, TOPIC)
    waiting = asyncio.create_task(follower.sees("orders"))
    async with asyncio.timeout(20):
        await follower.has_shown.wait()
    assert "orders" in follower.shown[-1].topics
    assert "orders" not in follower.watcher.view.topics
    assert not waiting.done()
    follower.gate.set()
    assert await waiting
    assert "orders" in follower.watcher.view.topics


async def test_views_go_on_while_a_topic_is_opened_which_clients_do_not_see(coordination: EmbeddedCoordination, follower: Follower) -> None:
    watcher, other = follower.watcher, replace(TOPIC, name="other", topic_id=UUID(int=8))
    follower.unopened = {"orders": 0}
    await create_topic(coordination, TOPIC)
    waiting = asyncio.create_task(follower.sees("orders"))
    assert await watcher.catch_up(timeout_ms=LONG_MS)
    assert (list(watcher.newest.topics), list(watcher.view.topics)) == (["orders"], [])
    await create_topic(coordination, other)
    assert await follower.sees("other")
    assert not waiting.done()
    assert not await watcher.until_opened(timeout_ms=1)
    follower.unopened = {}
    watcher.show()
    assert await waiting
    assert await watcher.until_opened(timeout_ms=LONG_MS)
    assert watcher.view is watcher.newest
    assert [sorted(view.topics) for view in follower.seen_by_clients[-2:]] == [["other"], ["orders", "other"]]
    # A topic that grows is seen as it was, with what is decided about it.
    follower.unopened = {"orders": 1}
    header = SetData(paths.topic("orders"), TOPIC.header._replace(partitions=2).encode())
    moved, added = SetData(paths.partition("orders", 0), MOVED.encode()), Create(paths.partition("orders", 1), MOVED.encode())
    await change(coordination, [header, moved, added], ("orders", None), ("orders", (0,)))
    assert await watcher.until(lambda view: view.topics["orders"].partitions[0].leader == 2, timeout_ms=LONG_MS)
    assert (len(watcher.view.topics["orders"].partitions), len(watcher.newest.topics["orders"].partitions)) == (1, 2)


async def test_a_view_that_is_being_taken_over_is_not_shown_by_logs_that_were_opened(
    coordination: EmbeddedCoordination, follower: Follower
) -> None:
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    follower.gate.clear()
    follower.has_shown.clear()
    await delete_topic(coordination, "orders")
    async with asyncio.timeout(20):
        await follower.has_shown.wait()
    follower.unopened = {"orders": 0}
    follower.watcher.show()
    assert "orders" in follower.watcher.view.topics, "as before"
    follower.gate.set()
    assert await follower.watcher.until(lambda view: not view.topics, timeout_ms=LONG_MS)


async def test_waiting_ends_with_the_time_and_leaves_nothing_behind(follower: Follower) -> None:
    assert not await follower.watcher.until(lambda _view: False, timeout_ms=1)
    assert not follower.watcher._waiting


async def test_catching_up_waits_for_what_was_written_before(coordination: EmbeddedCoordination, follower: Follower) -> None:
    await create_topic(coordination, TOPIC)
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert "orders" in follower.watcher.view.topics
    follower.gate.clear()
    await set_header(coordination, "orders", TOPIC.header.encode())
    assert not await follower.watcher.catch_up(timeout_ms=1)


@pytest.mark.parametrize("nonsense", [b"", b"[]", b"{}", b"\xff\xfe", b'{"partitions": 3}'])
async def test_a_znode_that_makes_no_sense_does_not_end_the_broker(
    coordination: EmbeddedCoordination, follower: Follower, nonsense: bytes
) -> None:
    await change(coordination, [Create(paths.topic("broken"), nonsense)], ("broken", None))
    await coordination.create(paths.CONTROLLER, nonsense)
    await coordination.create(f"{paths.BROKER_IDS}/none", nonsense)
    await coordination.create(paths.broker(9), nonsense)
    await coordination.create(f"{paths.BROKER_CONFIGS}/none", nonsense)
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    assert list(follower.watcher.view.topics) == ["orders"]
    assert follower.watcher.view.brokers == {}
    assert follower.watcher.view.unreadable_topics == {"broken"}
    mended = topic_creations(replace(TOPIC, name="broken", topic_id=UUID(int=8)))[1:]
    header = replace(TOPIC, topic_id=UUID(int=8)).header
    await change(coordination, [*mended, SetData(paths.topic("broken"), header.encode())], ("another", None))
    assert await follower.sees("broken")
    assert not follower.watcher.view.unreadable_topics


async def test_after_a_lost_connection_only_what_changed_is_read_again(
    coordination: EmbeddedCoordination, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_topic(coordination, replace(TOPIC, partitions=TOPIC.partitions * 3))
    await create_topic(coordination, replace(TOPIC, name="other", topic_id=UUID(int=8)))
    assert await follower.sees("other")
    reads = Reads(coordination, monkeypatch)
    reconnect(coordination)
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert not [path for path in reads.paths if path.startswith(paths.TOPICS)]
    await set_partition(coordination, "orders", 1, MOVED.encode())
    assert await follower.watcher.until(lambda view: view.topics["orders"].partitions[1] == MOVED.read_at(1), timeout_ms=LONG_MS)
    assert [path for path in reads.paths if path.startswith(paths.TOPICS)] == [paths.partition("orders", 1)]


async def test_who_was_away_for_too_long_reads_everything(
    coordination: EmbeddedCoordination, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_topic(coordination, TOPIC)
    await create_topic(coordination, replace(TOPIC, name="gone", topic_id=UUID(int=8)))
    assert await follower.sees("gone")
    real = coordination.get
    monkeypatch.setattr(coordination, "get", unreachable)
    await coordination.multi([Delete(paths.partition("gone", 0)), Delete(paths.partitions("gone")), Delete(paths.topic("gone"))])
    await coordination.multi(topic_creations(replace(TOPIC, name="new", topic_id=UUID(int=9))))
    await coordination.set(paths.partition("orders", 0), MOVED.encode())
    await coordination.set(paths.CHANGES, ChangeLog(9000, (Change(9000, "something"),)).encode())
    monkeypatch.setattr(coordination, "get", real)
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    view = follower.watcher.view
    assert sorted(view.topics) == ["new", "orders"]
    assert view.topics["orders"].partitions == (MOVED.read_at(1),)
    assert follower.watcher.last_change == 9000


async def unreachable(path: str, *, watch: object = None) -> NoReturn:
    raise ConnectionLost(path)


@pytest.mark.parametrize("nonsense", [b"{}", b"[1]", b'{"last": 3, "changes": [[1, "orders", null]]}'])
async def test_a_list_of_changes_that_makes_no_sense_means_that_everything_is_read(
    coordination: EmbeddedCoordination, follower: Follower, nonsense: bytes
) -> None:
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    await coordination.set(paths.partition("orders", 0), MOVED.encode())
    await coordination.set(paths.CHANGES, nonsense)
    assert await follower.watcher.until(lambda view: view.topics["orders"].partitions == (MOVED.read_at(1),), timeout_ms=LONG_MS)
    await coordination.delete(paths.CHANGES)
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    await coordination.multi(topic_creations(replace(TOPIC, name="new", topic_id=UUID(int=9))))
    await coordination.create(paths.CHANGES)
    assert await follower.sees("new")


async def test_everything_is_read_each_time_that_the_list_of_changes_is_emptied(
    coordination: EmbeddedCoordination, follower: Follower
) -> None:
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    for epoch in (1, 2, 3):
        state = MOVED._replace(leader_epoch=epoch)
        await coordination.set(paths.partition("orders", 0), state.encode())
        await coordination.set(paths.CHANGES, b"")
        assert await follower.watcher.until(
            lambda view, epoch=epoch: view.topics["orders"].partitions[0].leader_epoch == epoch,  # type: ignore[misc]
            timeout_ms=LONG_MS,
        )


async def test_a_read_that_fails_halfway_loses_no_change(
    coordination: EmbeddedCoordination, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    await coordination.create(paths.broker_config(1), b"{}")
    assert await follower.watcher.catch_up(("configs", ""), timeout_ms=LONG_MS)
    real = coordination.children
    monkeypatch.setattr(coordination, "children", unreachable)
    follower.watcher._stale.add(("configs", ""))
    await create_topic(coordination, TOPIC)
    for _ in range(10):
        await asyncio.sleep(0)
    assert "orders" not in follower.watcher.view.topics
    monkeypatch.setattr(coordination, "children", real)
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert "orders" in follower.watcher.view.topics


async def test_a_broker_that_comes_often_does_not_leave_watches_behind(coordination: EmbeddedCoordination, follower: Follower) -> None:
    await coordination.create(paths.broker(1), BrokerState(1, "h", 1).encode())
    for number in range(5):
        await coordination.create(paths.broker(2), BrokerState(2, "h", number).encode())
        assert await follower.watcher.until(lambda view: 2 in view.brokers, timeout_ms=LONG_MS)
        await coordination.delete(paths.broker(2))
        assert await follower.watcher.until(lambda view: 2 not in view.brokers, timeout_ms=LONG_MS)
    # One for each of the lists of changes, brokers and options, one for the controller.
    assert len(coordination.keeper.watches) == 4


@pytest.mark.parametrize("nonsense", [b"", b"{}", b'{"partitions": 3}'])
async def test_a_topic_is_not_deleted_because_its_znode_makes_no_sense_any_more(
    coordination: EmbeddedCoordination, follower: Follower, nonsense: bytes
) -> None:
    await create_topic(coordination, TOPIC)
    assert await follower.watcher.until(lambda view: "orders" in view.topics, timeout_ms=LONG_MS)
    await set_header(coordination, "orders", nonsense)
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert follower.watcher.view.topics["orders"].topic_id == TOPIC.topic_id
    await delete_topic(coordination, "orders")
    assert await follower.watcher.until(lambda view: "orders" not in view.topics, timeout_ms=LONG_MS)


def header_with(**fields: object) -> bytes:
    """The znode of the topic with fields of it replaced."""
    return json.dumps({**json.loads(TOPIC.header.encode()), **fields}).encode()


async def test_what_a_znode_said_before_stays_and_what_is_wrong_is_logged_once_for_each_write(
    coordination: EmbeddedCoordination, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    await create_topic(coordination, TOPIC)
    await coordination.create(paths.broker_config(None), b'{"log.retention.ms": "7"}')
    await coordination.create(paths.CONTROLLER, b'{"broker_id": 4}')
    assert await follower.watcher.catch_up(("configs", ""), timeout_ms=LONG_MS)
    await set_header(coordination, "orders", header_with(partitions="1"))
    await coordination.set(paths.broker_config(None), b'{"log.retention.ms": 7}')
    await coordination.set(paths.CONTROLLER, b'{"broker_id": "4"}')
    for _ in range(3):
        for stale in (("changes", ""), ("config", DEFAULT_BROKER), ("controller", ""), ("configs", "")):
            assert await follower.watcher.catch_up(stale, timeout_ms=LONG_MS)
    view = follower.watcher.view
    assert (view.topics["orders"], view.controller_id) == (TOPIC, 4)
    assert view.broker_configs == {DEFAULT_BROKER: {"log.retention.ms": "7"}}
    reported = [record.getMessage() for record in caplog.records if "makes no sense" in record.getMessage()]
    assert len(reported) == 3
    assert "/brokers/topics/orders makes no sense and is not taken over: partitions must be a whole number" in caplog.text
    await set_header(coordination, "orders", header_with(partitions=True))
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert caplog.text.count("/brokers/topics/orders makes no sense") == 2
    await coordination.set(paths.topic("orders"), header_with(configs={"retention.ms": "5"}))
    await change(coordination, [], ("another", None))
    assert await follower.watcher.until(lambda view: bool(view.topics["orders"].configs), timeout_ms=LONG_MS), (
        "read again with the next change"
    )


async def test_options_that_make_no_sense_do_not_take_the_others_with_them(coordination: EmbeddedCoordination, follower: Follower) -> None:
    wrong = {"retention.ms": "5", "no.such.option": "1", "flush.ms": "often"}
    await create_topic(coordination, replace(TOPIC, configs=wrong))
    await coordination.create(paths.broker_config(1), b'{"log.retention.ms": "5", "node.id": "7", "max.connections": "many"}')
    assert await follower.sees("orders")
    assert await follower.watcher.until(lambda view: "1" in view.broker_configs, timeout_ms=LONG_MS)
    assert follower.watcher.view.topics["orders"].configs == {"retention.ms": "5"}
    assert follower.watcher.view.broker_configs["1"] == {"log.retention.ms": "5"}
    await set_header(coordination, "orders", header_with(configs={"retention.ms": "never"}))
    assert await follower.watcher.until(lambda view: view.topics["orders"].version == 1, timeout_ms=LONG_MS)
    assert follower.watcher.view.topics["orders"].configs == {"retention.ms": "5"}


async def test_a_topic_keeps_its_id_and_its_partitions_until_it_is_deleted(coordination: EmbeddedCoordination, follower: Follower) -> None:
    two = replace(TOPIC, partitions=TOPIC.partitions * 2)
    await create_topic(coordination, two)
    assert await follower.sees("orders")
    for nonsense in (TOPIC, replace(two, topic_id=UUID(int=9))):
        await set_header(coordination, "orders", nonsense.header.encode())
        assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
        assert follower.watcher.view.topics["orders"] == two
    await delete_topic(coordination, "orders")
    await create_topic(coordination, replace(TOPIC, topic_id=UUID(int=9)))
    assert await follower.watcher.until(lambda view: UUID(int=9) in view.topics_by_id, timeout_ms=LONG_MS)
    assert len(follower.watcher.view.topics["orders"].partitions) == 1


async def test_an_id_belongs_to_one_topic(coordination: EmbeddedCoordination, follower: Follower) -> None:
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    await create_topic(coordination, replace(TOPIC, name="a-copy"))
    assert await follower.watcher.until(lambda view: view.unreadable_topics == {"a-copy"}, timeout_ms=LONG_MS)
    assert follower.watcher.view.topics_by_id == {TOPIC.topic_id: TOPIC}


@pytest.mark.parametrize("name", ["x" * 250, "with space", "\u00fcmlaut"])
async def test_a_topic_that_cannot_have_its_name_is_not_taken_up(coordination: EmbeddedCoordination, follower: Follower, name: str) -> None:
    await create_topic(coordination, replace(TOPIC, name=name))
    assert await follower.watcher.until(lambda view: bool(view.unreadable_topics), timeout_ms=LONG_MS)
    assert follower.watcher.view.topics == {}


async def test_lists_that_were_removed_come_back(coordination: EmbeddedCoordination, follower: Follower) -> None:
    removed = (paths.TOPICS, paths.BROKER_IDS, paths.BROKER_CONFIGS, paths.BROKER_EPOCHS, paths.CHANGES)
    for path in removed:
        await coordination.delete(path)
    for stale in (("changes", ""), ("brokers", ""), ("configs", "")):
        assert await follower.watcher.catch_up(stale, timeout_ms=LONG_MS)
    for path in removed:
        await coordination.create(path)
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    await coordination.create(paths.broker(4), BrokerState(4, "h", 1).encode())
    assert await follower.watcher.until(lambda view: 4 in view.brokers, timeout_ms=LONG_MS)
