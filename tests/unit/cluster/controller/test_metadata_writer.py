"""What the controller writes, and what is left when it ends halfway."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.cluster.controller import metadata_writer
from millstream.cluster.controller.metadata_writer import MAX_OPERATIONS, MetadataWriter, chunks_of
from millstream.coordination import paths
from millstream.coordination.change_log import MAX_CHANGES, ChangeLog
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.election import ControllerClaim
from millstream.coordination.interface import Create, Operation, OperationResult
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import DELETING
from millstream.errors import InvalidPartitions, NotController
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import BadVersion, ConnectionLost, NodeExists
from tests.unit.cluster.controller.test_controller import LONG_MS, Cluster, running

FIRST = TopicPartition("orders", 0)


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """With transactions so small that a topic of ten partitions needs several."""
    monkeypatch.setattr(metadata_writer, "MAX_OPERATIONS", 4)
    async with running(tmp_path) as cluster:
        yield cluster


class Failing:
    """Lets some transactions through, and then none: the controller has lost its connection."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
        self.left = after
        self._really = cluster.coordination.multi
        self._monkeypatch = monkeypatch
        self._coordination = cluster.coordination
        monkeypatch.setattr(cluster.coordination, "multi", self._multi)

    async def _multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if self.left == 0:
            raise ConnectionLost("gone")
        self.left -= 1
        return await self._really(operations)

    def mend(self) -> None:
        self._monkeypatch.setattr(self._coordination, "multi", self._really)


def planned(cluster: Cluster, partitions: int = 10) -> TopicState:
    return cluster.controller.plan_topic("orders", partitions=partitions, replication_factor=1, configs={})


def partition_count(cluster: Cluster) -> int:
    return len(cluster.watcher.view.topics["orders"].partitions)


async def changes_in(cluster: Cluster) -> ChangeLog:
    return ChangeLog.decode((await cluster.coordination.get(paths.CHANGES))[0])


async def topics_in_the_tree(cluster: Cluster) -> list[str]:
    return await cluster.coordination.children(paths.TOPICS)


@pytest.mark.parametrize("after", range(5))
async def test_a_topic_that_was_left_half_created_was_never_there(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    topic = planned(cluster)
    failing = Failing(cluster, monkeypatch, after=after)
    with pytest.raises(ConnectionLost):
        await cluster.controller.create_topic(topic, timeout_ms=LONG_MS)
    failing.mend()
    assert await cluster.watcher.catch_up(timeout_ms=LONG_MS)
    assert cluster.watcher.view.topics == {}
    await cluster.controller.finish_half_done()
    assert await topics_in_the_tree(cluster) == []
    assert await cluster.watcher.catch_up(timeout_ms=LONG_MS)
    assert cluster.watcher.view.unreadable_topics == cluster.watcher.unfinished_topics == frozenset()


async def test_a_topic_can_be_created_over_one_that_was_left_half_created(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(cluster, monkeypatch, after=2)
    with pytest.raises(ConnectionLost):
        await cluster.controller.create_topic(planned(cluster), timeout_ms=LONG_MS)
    failing.mend()
    topic = await cluster.create("orders", partitions=3)
    assert cluster.watcher.view.topics["orders"].topic_id == topic.topic_id
    assert await cluster.coordination.children(paths.partitions("orders")) == ["0", "1", "2"]


async def test_what_is_being_created_is_not_taken_for_left_behind(cluster: Cluster) -> None:
    creating = asyncio.create_task(cluster.controller.create_topic(planned(cluster), timeout_ms=LONG_MS))
    assert await cluster.watcher.until(lambda _view: "orders" in cluster.watcher.unfinished_topics, timeout_ms=LONG_MS)
    with pytest.raises(NodeExists):
        await cluster.writer.create_topic(planned(cluster))
    await cluster.controller.finish_half_done()
    await creating
    assert len(cluster.watcher.view.topics["orders"].partitions) == 10


@pytest.mark.parametrize("after", range(1, 4))
async def test_a_deletion_that_was_left_halfway_is_resumed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    topic = await cluster.create("orders", partitions=10)
    failing = Failing(cluster, monkeypatch, after=after)
    with pytest.raises(ConnectionLost):
        await cluster.controller.delete_topic(topic, timeout_ms=LONG_MS)
    assert await cluster.watcher.until(lambda view: not view.topics, timeout_ms=LONG_MS), "gone from the first moment on"
    assert await topics_in_the_tree(cluster) == ["orders"]
    failing.mend()
    await cluster.controller.finish_half_done()
    assert await topics_in_the_tree(cluster) == []


async def test_a_growth_that_was_left_halfway_is_not_seen_and_can_be_done_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    await cluster.create("orders", partitions=2)
    failing = Failing(cluster, monkeypatch, after=1)
    with pytest.raises(ConnectionLost):
        await cluster.controller.create_partitions(
            cluster.controller.plan_partitions("orders", count=11, assignments=None), timeout_ms=LONG_MS
        )
    failing.mend()
    assert len(await cluster.coordination.children(paths.partitions("orders"))) > 2
    assert await cluster.watcher.catch_up(timeout_ms=LONG_MS)
    assert partition_count(cluster) == 2
    await cluster.controller.create_partitions(cluster.controller.plan_partitions("orders", count=4, assignments=None), timeout_ms=LONG_MS)
    assert partition_count(cluster) == 4
    stale = replace(cluster.controller.plan_partitions("orders", count=9, assignments=None), version=0)
    with pytest.raises(InvalidPartitions):
        await cluster.controller.create_partitions(stale, timeout_ms=LONG_MS)
    assert len(await cluster.coordination.children(paths.partitions("orders"))) == 4
    await cluster.controller.delete_topic(cluster.watcher.view.topics["orders"], timeout_ms=LONG_MS)


async def test_states_replace_the_version_they_were_decided_on_and_lives_come_last(cluster: Cluster) -> None:
    await cluster.create("orders", partitions=10)
    states = {TopicPartition("orders", number): PartitionState((1, 2), 2, 1, (2,)) for number in range(10)}
    before = (await changes_in(cluster)).last
    await cluster.writer.write_states(states, {1: 17})
    assert await cluster.watcher.until(lambda view: view.lives == {1: 17}, timeout_ms=LONG_MS)
    assert {state.leader for state in cluster.watcher.view.topics["orders"].partitions} == {2}
    touched = [(change.topic, change.partitions) for change in (await changes_in(cluster)).changes if change.number > before]
    assert touched == [("orders", (0, 1, 2, 3)), ("orders", (4, 5, 6, 7)), ("orders", (8, 9)), ("", None)]
    with pytest.raises(BadVersion):
        await cluster.writer.write_states({FIRST: states[FIRST]}, {1: 18})
    await cluster.writer.write_states({FIRST: states[FIRST].read_at(1)}, {1: 19, 2: 5})
    await cluster.writer.write_states({}, {2: 6})
    assert await cluster.watcher.until(lambda view: view.lives == {1: 19, 2: 6}, timeout_ms=LONG_MS)


async def test_of_writes_that_are_sent_together_only_those_fail_that_cannot_be_done(cluster: Cluster) -> None:
    await cluster.create("t3")
    topics = [replace(cluster.controller.plan_topic("new", partitions=1, replication_factor=1, configs={}), name=f"t{n}") for n in range(6)]
    outcomes = await asyncio.gather(*(cluster.writer.create_topic(topic) for topic in topics), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 3 + [NodeExists] + [type(None)] * 2
    assert await topics_in_the_tree(cluster) == [f"t{number}" for number in range(6)]


async def test_a_caller_that_gives_up_does_not_take_the_others_with_it(cluster: Cluster) -> None:
    writes = [asyncio.create_task(cluster.writer.write([Create(f"/w{number}")])) for number in range(5)]
    await asyncio.sleep(0)
    writes[0].cancel()
    writes[3].cancel()
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    given_up, done = asyncio.CancelledError, type(None)
    assert [type(outcome) for outcome in outcomes] == [given_up, done, done, given_up, done]
    assert await cluster.coordination.exists("/w3") is None, "it had not been sent"


async def test_what_was_decided_under_another_claim_is_not_written(cluster: Cluster) -> None:
    first = asyncio.create_task(cluster.writer.write([Create("/first")]))
    second = asyncio.create_task(cluster.writer.write([Create("/second")]))
    await asyncio.sleep(0)
    cluster.claim = ControllerClaim(1, 2, 0)
    await asyncio.gather(first, second, return_exceptions=True)
    assert isinstance(second.exception(), NotController)
    await cluster.writer.write([Create("/third")])


async def test_who_is_fenced_off_writes_neither_states_nor_changes(cluster: Cluster) -> None:
    await cluster.create("orders")
    before = await changes_in(cluster)
    await cluster.coordination.set(paths.CONTROLLER_EPOCH, b"2")
    with pytest.raises(NotController):
        await cluster.writer.write_states({FIRST: PartitionState.first((1,))}, {1: 17})
    assert await changes_in(cluster) == before


@pytest.mark.parametrize("nonsense", [b"{", b"", None])
async def test_after_a_list_that_was_lost_nobodys_number_is_found_in_the_next_one(cluster: Cluster, nonsense: bytes | None) -> None:
    await cluster.create("orders")
    known = (await changes_in(cluster)).last
    if nonsense is None:
        await cluster.coordination.delete(paths.CHANGES)
    else:
        await cluster.coordination.set(paths.CHANGES, nonsense)
    later = MetadataWriter(cluster.coordination, cluster.watcher, claim=lambda: cluster.claim)
    await later.create_topic(cluster.controller.plan_topic("other", partitions=1, replication_factor=1, configs={}))
    assert await cluster.watcher.until(lambda view: "other" in view.topics, timeout_ms=LONG_MS)
    changes = await changes_in(cluster)
    assert all(changes.since(number) is None for number in (0, known, known + 1))


async def test_a_list_that_was_removed_is_made_again(cluster: Cluster) -> None:
    await cluster.create("orders")
    await cluster.coordination.delete(paths.CHANGES)
    await cluster.create("other")
    assert sorted(cluster.watcher.view.topics) == ["orders", "other"]
    assert (await changes_in(cluster)).last > MAX_CHANGES


def test_chunks_stay_below_the_limits() -> None:
    many = [Create(f"/{number}", b"x" * 100) for number in range(MAX_OPERATIONS * 2 + 1)]
    assert [len(chunk) for chunk in chunks_of(many)] == [MAX_OPERATIONS, MAX_OPERATIONS, 1]
    large = [Create(f"/{number}", b"x" * 150_000) for number in range(5)]
    assert [len(chunk) for chunk in chunks_of(large)] == [2, 2, 1]
    assert list(chunks_of([])) == []


async def test_a_topic_that_cannot_be_removed_does_not_keep_the_controller_from_its_work(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await cluster.create("orders")
    await cluster.coordination.create(f"{paths.partition('orders', 0)}/by-hand")
    await cluster.writer.set_header("orders", topic.header._replace(phase=DELETING), version=0)
    assert await cluster.watcher.catch_up(timeout_ms=LONG_MS)
    await cluster.controller.finish_half_done()
    assert "orders was left unfinished" in caplog.text


async def test_a_write_that_was_broken_off_is_never_taken_for_done(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: Iterator[tuple[list[object], None]] = iter([([], None)])

    async def try_to_send(_batch: object) -> object:
        try:
            return next(outcomes)
        except StopIteration:
            raise MemoryError from None

    monkeypatch.setattr(cluster.writer, "_try_to_send", try_to_send)
    with pytest.raises((ConnectionLost, MemoryError)):
        await cluster.writer.write([Create("/a", b"")])


async def test_brokers_read_again_what_is_announced(cluster: Cluster) -> None:
    await cluster.create("orders")
    data, _ = await cluster.coordination.get(paths.partition("orders", 0))
    await cluster.coordination.set(paths.partition("orders", 0), data)
    assert await cluster.watcher.catch_up(timeout_ms=LONG_MS)
    assert cluster.watcher.view.topics["orders"].partitions[0].partition_epoch == 0
    await cluster.writer.announce([FIRST])
    assert await cluster.watcher.catch_up(timeout_ms=LONG_MS)
    assert cluster.watcher.view.topics["orders"].partitions[0].partition_epoch == 1


async def test_a_partition_that_was_removed_by_hand_comes_back_in_its_version(cluster: Cluster) -> None:
    await cluster.controller.create_topic(planned(cluster), timeout_ms=LONG_MS)
    path = paths.partition("orders", 3)
    state = cluster.watcher.view.topics["orders"].partitions[3]
    for version in range(11):
        await cluster.writer.write_states({TopicPartition("orders", 3): state.read_at(version)})
    await cluster.coordination.delete(path)
    topic, last = cluster.watcher.view.topics["orders"], state.read_at(11)
    assert await cluster.writer.restore_partition(topic, 3, last)
    data, stat = await cluster.coordination.get(path)
    assert PartitionState.decode(data, partition_epoch=stat.version) == last
    assert not await cluster.writer.restore_partition(topic, 3, last), "it is there"
    await cluster.coordination.delete(path)
    assert not await cluster.writer.restore_partition(replace(topic, version=topic.version + 1), 3, last), "the topic may be on its way out"
    assert await cluster.coordination.exists(path) is None


async def test_a_topic_that_is_being_deleted_is_not_finished_by_another(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection comes back in the middle of a deletion: who deletes goes on, and is answered."""
    topic = planned(cluster)
    await cluster.controller.create_topic(topic, timeout_ms=LONG_MS)
    really, finished = cluster.coordination.multi, 0

    async def multi(operations: Sequence[Operation]) -> list[OperationResult]:
        nonlocal finished
        finished += 1
        if finished == 2:
            await cluster.writer.finish("orders")
        return await really(operations)

    monkeypatch.setattr(cluster.coordination, "multi", multi)
    await cluster.controller.delete_topic(topic, timeout_ms=LONG_MS)
    assert await topics_in_the_tree(cluster) == []
