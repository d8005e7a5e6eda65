import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.storage import loop_turns
from millstream.broker.storage.flusher import Flusher
from millstream.broker.storage.housekeeping import Housekeeping
from millstream.log.directories.manager import LogManager
from tests.manual_clock import ManualClock
from tests.unit.cluster.hosting import LED_BY_1, NOW_MS, append, local_broker, replicas_on, topic_state, view_of
from tests.waiting import eventually


class House:
    """A broker's logs and its chores, with a clock that a test moves."""

    def __init__(self, path: Path, executor: ThreadPoolExecutor, options: dict[str, str]) -> None:
        self.clock = ManualClock(NOW_MS)
        self.logs = LogManager([path], clock=self.clock)
        self.logs.start(node_id=1, cluster_id="tests")
        self.settings = LiveSettings(options, node_id=1)
        self.logs.load(lambda _topic: self.settings.log_config(topic_state()))
        self.executor = executor
        self.flusher = Flusher(executor, self.clock)
        self.replicas = replicas_on(
            self.logs,
            broker=local_broker(request_flush=self.flusher.request),
            log_config=self.settings.log_config,
            remove_later=lambda path, delay_ms: self.chores.remove_later(path, delay_ms),  # noqa: PLW0108 -- made below
        )
        self.chores = Housekeeping(
            self.replicas, self.logs, flusher=self.flusher, settings=self.settings, clock=self.clock, executor=executor
        )


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    with ThreadPoolExecutor(2) as executor:
        options = {
            "log.retention.check.interval.ms": "1",
            "log.flush.offset.checkpoint.interval.ms": "1",
            "producer.id.expiration.check.interval.ms": "1",
        }
        house = House(tmp_path, executor, options)
        yield house
        house.chores.forget()
        house.logs.close()


def deleted_in(path: Path) -> list[Path]:
    return list(path.glob("orders-0.*-delete"))


async def test_the_files_of_a_deleted_topic_go(house: House, tmp_path: Path) -> None:
    await house.replicas.apply(view_of(topic_state(file_delete_delay_ms="0")))
    await house.replicas.apply(view_of())
    assert len(deleted_in(tmp_path)) == 1
    await eventually(lambda: not deleted_in(tmp_path))


async def test_files_wait_for_their_delay_and_are_left_to_the_next_start_when_the_broker_stops(house: House, tmp_path: Path) -> None:
    await house.replicas.apply(view_of(topic_state()))
    await house.replicas.apply(view_of())
    assert len(house.chores._removals) == 1
    house.chores.forget()
    assert house.chores._removals == set()
    assert len(deleted_in(tmp_path)) == 1


async def test_old_segments_go_and_read_ones_are_closed(house: House, tmp_path: Path) -> None:
    await house.replicas.apply(view_of(topic_state(retention_ms="1000", file_delete_delay_ms="0")))
    partition = house.replicas.partition("orders", 0)
    append(partition, b"old")
    partition.log.roll(now_ms=NOW_MS)
    house.clock.advance(10_000)
    await house.chores.apply_retention()
    assert partition.log.log_start_offset == 0, "the new segment is not on disk yet"
    await house.chores._flush()
    await eventually(lambda: partition.log.durable_end == 1)
    await house.chores.apply_retention()
    await eventually(lambda: not list((tmp_path / "orders-0").glob("*.deleted")))
    assert partition.log.log_start_offset == 1


async def test_what_is_due_by_time_is_flushed(house: House) -> None:
    await house.replicas.apply(view_of(topic_state(flush_ms="1000")))
    partition = house.replicas.partition("orders", 0)
    append(partition, b"a")
    await house.chores._flush()
    assert house.flusher._running == set()
    house.clock.advance(1000)
    reached = asyncio.Event()
    partition.durable.wait_for(1, lambda _error: reached.set(), token=1)
    await house.chores._flush()
    async with asyncio.timeout(20):
        await reached.wait()
    assert partition.log.durable_end == 1


async def test_checkpoints_are_written_with_the_high_watermarks(house: House, tmp_path: Path) -> None:
    await house.replicas.apply(view_of(topic_state()))
    append(house.replicas.partition("orders", 0), b"a", b"b")
    await house.chores._checkpoint()
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 2\n"


async def test_high_watermarks_are_written_by_themselves_where_there_are_followers(house: House, tmp_path: Path) -> None:
    written = tmp_path / "replication-offset-checkpoint"
    await house.replicas.apply(view_of(topic_state()))
    await house.chores._checkpoint_high_watermarks()
    assert not written.exists()
    await house.chores._checkpoint()  # of logs that began since the last of these nothing is written
    state = LED_BY_1._replace(replicas=(1, 2), in_sync_replicas=(1, 2), partition_epoch=1)
    await house.replicas.apply(view_of(replace(topic_state(), partitions=(state,))))
    partition = house.replicas.partition("orders", 0)
    append(partition, b"a", b"b")
    partition.as_leader().replica_fetched(2, 9, 1, 0)
    await house.chores._checkpoint_high_watermarks()
    assert written.read_text() == "0\n1\norders 0 1\n"


async def test_the_chores_run_until_they_are_cancelled(house: House, tmp_path: Path) -> None:
    await house.replicas.apply(view_of(topic_state()))
    running = asyncio.create_task(house.chores.run())
    await eventually((tmp_path / "replication-offset-checkpoint").exists)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_disk_error_does_not_end_the_chores(house: House) -> None:
    await house.replicas.apply(view_of(topic_state()))
    house.logs.directories[0].fail("testing", OSError(5, "input/output error"))
    await house.chores._flush()
    await house.chores.apply_retention()
    await house.chores._checkpoint()
    await house.chores._expire_producers()


async def test_only_logs_that_may_be_due_are_asked_whether_they_have_to_be_flushed(house: House) -> None:
    [directory] = house.logs.directories
    await house.replicas.apply(view_of(topic_state()))
    partition = house.replicas.partition("orders", 0)
    assert directory.to_flush == {partition.log.topic_partition}
    append(partition, b"a")
    await house.chores._flush()
    assert directory.to_flush == set(), "it is not due, and time does not make it so"
    partition.log.roll(now_ms=NOW_MS)
    await house.chores._flush()
    await eventually(lambda: partition.log.durable_end == 1)
    await house.chores._flush()
    assert directory.to_flush == set()
    await house.replicas.apply(view_of(topic_state(flush_ms="1000")))
    await house.chores._flush()
    assert directory.to_flush == {partition.log.topic_partition}
    await house.replicas.apply(view_of())
    assert directory.to_flush == set()


async def test_others_have_a_turn_while_many_logs_are_looked_at(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_turns, "AT_ONCE", 2)
    monkeypatch.setattr(loop_turns, "TURN_S", -1.0)
    await house.replicas.apply(view_of(replace(topic_state(), partitions=(LED_BY_1,) * 10)))
    chores = house.chores
    for chore in (chores._flush, chores.apply_retention, chores._checkpoint, chores._expire_producers):
        task, turns = asyncio.ensure_future(chore()), 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 5, chore.__name__
