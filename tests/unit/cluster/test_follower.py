import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.cluster.follower import Follower
from millstream.cluster.partition import LocalBroker, Partition
from millstream.coordination.partition_state import PartitionState
from millstream.errors import CorruptMessage, FencedLeaderEpoch, NotLeaderOrFollower, StorageError
from millstream.log.directories.manager import LogManager
from millstream.log.leader_epochs import EpochEnd
from tests.batches import encode_batch
from tests.unit.cluster.hosting import RecordingWatcher, flush, host, local_broker, started_logs
from tests.unit.cluster.slow_disk import SlowDisk
from tests.waiting import eventually

LED_BY_2 = PartitionState(replicas=(1, 2), leader=2, leader_epoch=3, in_sync_replicas=(1, 2), partition_epoch=3)
LED_BY_1 = PartitionState(replicas=(1, 2), leader=1, leader_epoch=4, in_sync_replicas=(1, 2), partition_epoch=4)


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.may_sync.set()


@pytest.fixture
def logs(tmp_path: Path, disk: SlowDisk) -> LogManager:
    return started_logs(tmp_path, files=disk)


def batches(*offsets: int, epoch: int = 3) -> memoryview:
    """One batch with one record at each offset."""
    return memoryview(b"".join(encode_batch([b"v"], base_offset=offset, leader_epoch=epoch, timestamp=1) for offset in offsets))


def following(logs: LogManager, *, broker: LocalBroker | None = None, flush_messages: int = 1000) -> tuple[Partition, Follower]:
    partition = host(logs, state=LED_BY_2, broker=broker, flush_messages=flush_messages)
    assert partition.following is not None
    return partition, partition.following


def append(follower: Follower, *offsets: int, epoch: int = 3, high_watermark: int = 0, leader_log_start: int = 0) -> None:
    follower.append(batches(*offsets, epoch=epoch), high_watermark=high_watermark, leader_log_start=leader_log_start)


def test_a_follower_says_how_far_it_has_come_and_in_which_epoch(logs: LogManager) -> None:
    _, follower = following(logs)
    assert (follower.leader, follower.leader_epoch) == (2, 3)
    assert (follower.fetch_offset, follower.last_fetched_epoch, follower.log_start_offset) == (0, -1, 0)
    append(follower, 0, 1, epoch=2)
    append(follower, 2, epoch=3)
    assert (follower.fetch_offset, follower.last_fetched_epoch) == (3, 3)


def test_an_epoch_in_which_it_led_without_a_record_is_not_the_last_one(logs: LogManager) -> None:
    partition, follower = following(logs)
    append(follower, 0)
    partition.apply(LED_BY_1)
    assert partition.log.epochs.latest == 4
    partition.apply(LED_BY_2._replace(leader_epoch=5, partition_epoch=5))
    assert partition.following is not None
    assert partition.following.last_fetched_epoch == 3
    assert partition.log.epochs.latest == 3


def test_the_high_watermark_is_the_leaders_as_far_as_the_log_goes(logs: LogManager) -> None:
    partition, follower = following(logs)
    append(follower, 0, 1, high_watermark=9)
    assert partition.high_watermark.value == 2
    append(follower, 2, high_watermark=1)
    assert partition.high_watermark.value == 2
    append(follower, high_watermark=3)
    assert partition.high_watermark.value == 3


def test_consumers_that_read_here_are_called_when_something_is_committed_deleted_or_cut_off(logs: LogManager) -> None:
    partition, follower = following(logs)
    append(follower, 0, 1, 2, high_watermark=1)
    reader = RecordingWatcher()
    partition.watchers.add(reader, is_replica=False)
    append(follower, 3, high_watermark=1)
    assert reader.calls == []
    append(follower, high_watermark=2, leader_log_start=1)
    assert reader.calls == ["moved"], "once, until it registers again"
    partition.watchers.add(reader, is_replica=False)
    append(follower, high_watermark=2, leader_log_start=2)
    partition.truncated()
    assert reader.calls == ["moved", "marked", "moved"]


def test_consumers_read_in_the_epoch_of_the_leader_while_the_log_is_not_cut(logs: LogManager) -> None:
    partition, follower = following(logs)
    assert partition.as_reader() is partition.as_reader(3) is follower
    with pytest.raises(FencedLeaderEpoch, match="is in leader epoch 3, the request says 2"):
        partition.as_reader(2)
    partition.log.is_truncating = True
    with pytest.raises(NotLeaderOrFollower, match="cannot be read on broker 1 now"):
        partition.as_reader(3)
    partition.log.is_truncating = False
    partition.apply(LED_BY_1)
    assert partition.as_reader(4) is partition.leading


def test_the_start_of_the_leaders_log_is_followed_as_far_as_is_committed(logs: LogManager) -> None:
    _, follower = following(logs)
    append(follower, 0, 1, 2, high_watermark=2, leader_log_start=1)
    assert follower.log_start_offset == 1
    append(follower, high_watermark=2, leader_log_start=3)
    assert follower.log_start_offset == 2


def test_what_does_not_follow_is_refused(logs: LogManager) -> None:
    _, follower = following(logs)
    append(follower, 0, 1)
    with pytest.raises(CorruptMessage, match="offset 1 where 2 or more had to follow"):
        append(follower, 1, 2, high_watermark=9)
    assert follower.fetch_offset == 2


async def test_where_a_flush_is_due_it_is_asked_for_and_waited_for(logs: LogManager) -> None:
    asked: list[Partition] = []
    partition, follower = following(logs, broker=local_broker(request_flush=asked.append), flush_messages=2)
    append(follower, 0)
    assert (asked, follower.awaits_flush) == ([], False)
    append(follower, 1)
    assert (asked, follower.awaits_flush) == ([partition], True)
    waiting = asyncio.create_task(follower.flushed())
    await asyncio.sleep(0)
    assert not waiting.done()
    flush(partition)
    await waiting
    assert not follower.awaits_flush


async def test_whoever_waits_for_a_flush_hears_that_the_disk_failed(logs: LogManager) -> None:
    partition, follower = following(logs, flush_messages=1)
    append(follower, 0)
    waiting = asyncio.create_task(follower.flushed())
    await asyncio.sleep(0)
    partition.fail_waiters(StorageError("the disk is gone"))
    with pytest.raises(StorageError, match="the disk is gone"):
        await waiting


async def test_after_a_cut_nothing_is_said_of_what_is_gone(logs: LogManager) -> None:
    partition, follower = following(logs, flush_messages=1)
    append(follower, 0, 1, 2, epoch=1, high_watermark=3)
    append(follower, 3, 4, epoch=2)
    flush(partition)
    await follower.truncate(EpochEnd(1, 2))
    assert (follower.fetch_offset, follower.last_fetched_epoch, partition.high_watermark.value, partition.durable.value) == (2, 1, 2, 2)
    append(follower, 2, epoch=3)
    assert follower.awaits_flush


async def test_of_an_epoch_that_it_has_not_it_keeps_what_came_before(logs: LogManager) -> None:
    _, follower = following(logs)
    append(follower, 0, 1, epoch=0)
    append(follower, 2, 3, epoch=2)
    await follower.truncate(EpochEnd(1, 4))
    assert (follower.fetch_offset, follower.last_fetched_epoch) == (2, 0)


async def test_an_epoch_of_the_leaders_that_cannot_be_is_refused(logs: LogManager) -> None:
    _, follower = following(logs)
    append(follower, 0)
    with pytest.raises(ValueError, match="parts in epoch 7 at 1, and the last one here is 3"):
        await follower.truncate(EpochEnd(7, 1))
    assert not follower.is_truncating


async def test_another_role_waits_until_the_log_is_cut(logs: LogManager, disk: SlowDisk) -> None:
    changed: list[Partition] = []
    partition, follower = following(logs, broker=local_broker(on_follow=changed.extend))
    append(follower, 0, 1, 2)
    disk.may_sync.clear()
    cutting = asyncio.create_task(follower.truncate_to(1))
    await eventually(lambda: follower.is_truncating)
    partition.apply(LED_BY_1)
    assert (partition.following, partition.leading, changed) == (follower, None, [])
    disk.may_sync.set()
    await cutting
    assert partition.following is None
    assert partition.is_leader
    assert changed == [partition]
    assert partition.log.log_end_offset == 1


async def test_whoever_is_cancelled_while_the_log_is_cut_waits_for_the_thread(logs: LogManager, disk: SlowDisk) -> None:
    _, follower = following(logs)
    append(follower, 0, 1, 2)
    disk.may_sync.clear()
    cutting = asyncio.create_task(follower.truncate_to(1))
    await eventually(lambda: follower.is_truncating)
    cutting.cancel()
    await asyncio.sleep(0.01)
    assert not cutting.done()
    assert follower.is_truncating
    disk.may_sync.set()
    with pytest.raises(asyncio.CancelledError):
        await cutting
    assert (follower.is_truncating, follower.fetch_offset) == (False, 1)


async def test_it_begins_anew_where_the_leader_begins(logs: LogManager) -> None:
    partition, follower = following(logs)
    append(follower, 0, 1, high_watermark=2)
    await follower.restart_at(100)
    assert (follower.log_start_offset, follower.fetch_offset, partition.high_watermark.value) == (100, 100, 100)
    append(follower, 100, 101, high_watermark=101)
    assert (follower.fetch_offset, partition.high_watermark.value) == (102, 101)


async def test_a_batch_that_begins_before_the_start_makes_an_empty_log_begin_there(logs: LogManager) -> None:
    partition, follower = following(logs)
    await follower.restart_at(11)
    batch = memoryview(encode_batch([b"a", b"b", b"c"], base_offset=10, leader_epoch=3, timestamp=1))
    assert follower.start_before(batch) == 10
    assert follower.start_before(batches(11)) is None
    assert follower.start_before(batch[:20]) is None
    await follower.restart_at(10)
    follower.append(batch, high_watermark=13, leader_log_start=11)
    assert (follower.log_start_offset, follower.fetch_offset, partition.high_watermark.value) == (11, 13, 13)
    assert follower.start_before(batch) is None


async def test_who_waits_for_the_disk_hears_of_its_failure_however_late_he_asks(logs: LogManager) -> None:
    """One fetcher waits for its partitions one after the other: it must not wait for ever for those of a disk that failed meanwhile."""
    _, follower = following(logs, flush_messages=1)
    append(follower, 0)
    follower.log.directory.fail("fsync", OSError(errno.EIO, "the disk is gone"))
    with pytest.raises(StorageError, match="the disk is gone"):
        async with asyncio.timeout(5):
            await follower.flushed()


async def test_who_waits_for_the_disk_does_not_wait_for_what_was_cut_off(logs: LogManager) -> None:
    partition, follower = following(logs, flush_messages=1)
    append(follower, 0, 1)
    waiting = asyncio.create_task(follower.flushed())
    await asyncio.sleep(0)
    partition.apply(LED_BY_2._replace(leader=3, leader_epoch=4, partition_epoch=4, replicas=(1, 2, 3)))
    assert partition.following is not None
    await partition.following.truncate_to(1)
    with pytest.raises(NotLeaderOrFollower, match="cut off"):
        async with asyncio.timeout(5):
            await waiting


async def test_nothing_is_done_with_a_log_that_is_being_cut(logs: LogManager, disk: SlowDisk) -> None:
    """When `num.replica.fetchers` changes, another fetcher goes on with the same role."""
    _, follower = following(logs)
    append(follower, 0, 1, 2)
    disk.may_sync.clear()
    cutting = asyncio.create_task(follower.truncate_to(1))
    await eventually(lambda: follower.is_truncating)
    with pytest.raises(NotLeaderOrFollower, match="being cut"):
        append(follower, 3)
    with pytest.raises(NotLeaderOrFollower, match="being cut"):
        await follower.truncate_to(2)
    with pytest.raises(NotLeaderOrFollower, match="being cut"):
        await follower.restart_at(7)
    disk.may_sync.set()
    await cutting
    assert follower.fetch_offset == 1
