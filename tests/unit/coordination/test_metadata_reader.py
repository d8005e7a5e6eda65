from dataclasses import replace
from uuid import UUID

import pytest

from millstream.coordination import paths
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import Create, Operation, SetData, WatchCallback, ZnodeStat
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import CREATING, DELETING
from tests.topic_znodes import change, create_topic, delete_topic, set_header, set_partition
from tests.unit.coordination.following import LONG_MS, MOVED, TOPIC, Follower, Reads


async def test_lives_of_brokers_are_read_when_they_are_said_to_have_changed(
    coordination: EmbeddedCoordination, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    await change(coordination, [Create(paths.broker_epoch(1), b"17"), Create(paths.broker_epoch(2), b"x")], ("", None))
    assert await follower.watcher.until(lambda view: view.lives == {1: 17}, timeout_ms=LONG_MS)
    assert "/brokers/epochs/2 makes no sense" in caplog.text
    await change(coordination, [SetData(paths.broker_epoch(1), b"-1"), SetData(paths.broker_epoch(2), b"5")], ("", None))
    assert await follower.watcher.until(lambda view: view.lives == {1: 17, 2: 5}, timeout_ms=LONG_MS)


async def test_a_life_is_never_seen_before_the_partitions_that_were_written_with_it(
    coordination: EmbeddedCoordination, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller writes both while the lives of brokers are being read, because of an earlier change."""
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    really = coordination.children

    async def children(path: str, *, watch: object = None) -> list[str]:
        if path == paths.BROKER_EPOCHS:
            monkeypatch.setattr(coordination, "children", really)
            written: list[Operation] = [SetData(paths.partition("orders", 0), MOVED.encode()), Create(paths.broker_epoch(1), b"17")]
            await change(coordination, written, ("orders", (0,)), ("", None))
        return await really(path)

    monkeypatch.setattr(coordination, "children", children)
    await change(coordination, [], ("", None))
    assert await follower.watcher.until(lambda view: view.lives == {1: 17}, timeout_ms=LONG_MS)
    assert [view.topics["orders"].partitions for view in follower.shown if view.lives] == [(MOVED.read_at(1),)]


async def test_a_life_that_changes_while_lives_are_read_is_not_missed(
    coordination: EmbeddedCoordination, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    await change(coordination, [Create(paths.broker_epoch(1), b"17")], ("", None))
    assert await follower.watcher.until(lambda view: view.lives == {1: 17}, timeout_ms=LONG_MS)
    really = coordination.get

    async def get(path: str, *, watch: WatchCallback | None = None) -> tuple[bytes, ZnodeStat]:
        found = await really(path, watch=watch)
        if path == paths.broker_epoch(1):
            monkeypatch.setattr(coordination, "get", really)
            await change(coordination, [SetData(path, b"19")], ("", None))
        return found

    monkeypatch.setattr(coordination, "get", get)
    await change(coordination, [SetData(paths.broker_epoch(1), b"18")], ("", None))
    assert await follower.watcher.until(lambda view: view.lives == {1: 19}, timeout_ms=LONG_MS)


async def test_a_topic_made_again_while_it_is_read_is_not_mixed_with_the_former_one(
    coordination: EmbeddedCoordination, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = replace(TOPIC, topic_id=UUID(int=9), partitions=(PartitionState.first((2,)),))
    really = coordination.get

    async def get(path: str, *, watch: WatchCallback | None = None) -> tuple[bytes, ZnodeStat]:
        if path == paths.partition("orders", 0):
            monkeypatch.setattr(coordination, "get", really)
            await delete_topic(coordination, "orders")
            await create_topic(coordination, again)
        return await really(path, watch=watch)

    monkeypatch.setattr(coordination, "get", get)
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    assert [view.topics["orders"] for view in follower.shown if view.topics] == [again]


async def test_a_topic_is_seen_when_it_is_complete_and_gone_when_it_is_being_deleted(
    coordination: EmbeddedCoordination, follower: Follower
) -> None:
    creating, deleting = (TOPIC.header._replace(phase=phase).encode() for phase in (CREATING, DELETING))
    await change(coordination, [Create(paths.topic("orders"), creating), Create(paths.partitions("orders"))], ("orders", None))
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert follower.watcher.view.topics == {}
    assert follower.watcher.unfinished_topics == {"orders"}
    state = Create(paths.partition("orders", 0), TOPIC.partitions[0].encode())
    await change(coordination, [state, SetData(paths.topic("orders"), TOPIC.header.encode())], ("orders", None))
    assert await follower.sees("orders")
    await set_header(coordination, "orders", creating)
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert list(follower.watcher.view.topics) == ["orders"], "nobody but a person with an editor writes that"
    await set_header(coordination, "orders", deleting)
    assert await follower.watcher.until(lambda view: not view.topics, timeout_ms=LONG_MS)
    assert follower.watcher.unfinished_topics == {"orders"}
    await delete_topic(coordination, "orders")
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert follower.watcher.unfinished_topics == set()


async def test_a_number_of_partitions_that_cannot_be_is_refused_at_once(
    coordination: EmbeddedCoordination, follower: Follower, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await create_topic(coordination, TOPIC)
    assert await follower.sees("orders")
    reads = Reads(coordination, monkeypatch)
    await set_header(coordination, "orders", TOPIC.header._replace(partitions=2**31 - 1).encode())
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert follower.watcher.view.topics == {"orders": TOPIC}
    assert len(reads.paths) < 20
    assert "/partitions/2147483646 makes no sense and is not taken over: it is not there" in caplog.text


async def test_a_partition_that_makes_no_sense_keeps_what_was_known_and_can_be_written_over(
    coordination: EmbeddedCoordination, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    await create_topic(coordination, replace(TOPIC, partitions=(MOVED, MOVED)))
    assert await follower.sees("orders")
    for version, nonsense in enumerate(
        (b"", b"{}", PartitionState((1, 2), 1, 0, (1,)).encode(), PartitionState((1, 2), 1, 1, (1,)).encode()), 1
    ):
        await set_partition(coordination, "orders", 0, nonsense)
        await set_partition(coordination, "orders", 1, MOVED._replace(leader_epoch=version + 1).encode())
        assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
        states = follower.watcher.view.topics["orders"].partitions
        assert states == (MOVED.read_at(version), MOVED._replace(leader_epoch=version + 1, partition_epoch=version))
    assert caplog.text.count("/brokers/topics/orders/partitions/0 makes no sense") == 4
    await coordination.delete(paths.partition("orders", 0))
    await change(coordination, [], ("orders", (0,)))
    assert await follower.watcher.catch_up(timeout_ms=LONG_MS)
    assert follower.watcher.view.topics["orders"].partitions[0] == MOVED.read_at(4)


async def test_a_topic_of_an_older_release_is_left_alone_until_it_is_converted(
    coordination: EmbeddedCoordination, follower: Follower
) -> None:
    old = b'{"topic_id": "00000000-0000-0000-0000-000000000007", "configs": {}, "partitions": [{"replicas": [1]}]}'
    await change(coordination, [Create(paths.topic("orders"), old)], ("orders", None))
    assert await follower.watcher.until(lambda view: view.unreadable_topics == {"orders"}, timeout_ms=LONG_MS)
    assert follower.watcher.view.topics == {}
