import asyncio
import errno
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.broker.storage.flusher import MOST_AT_ONCE, Flusher
from millstream.cluster.partition import Partition
from millstream.errors import KafkaError, StorageError
from millstream.log.directories.manager import LogManager
from millstream.log.local_log import LocalLog
from tests.manual_clock import ManualClock
from tests.unit.cluster.hosting import append, host, local_broker, started_logs
from tests.unit.zookeeper.failing_files import FailingFiles
from tests.waiting import eventually


class Disk:
    """A disk that can fail or take its time, and a flusher in front of it."""

    def __init__(self, path: Path, executor: ThreadPoolExecutor) -> None:
        self.files = FailingFiles()
        self.logs: LogManager = started_logs(path, files=self.files)
        self.files.syncs = 0
        self.flusher = Flusher(executor, ManualClock())

    def partition(self, *, flush_messages: int = 1 << 60) -> Partition:
        return host(self.logs, broker=local_broker(request_flush=self.flusher.request), flush_messages=flush_messages)


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    with ThreadPoolExecutor(2) as executor:
        disk = Disk(tmp_path, executor)
        yield disk
        disk.files.gate.set()
        executor.shutdown()
        disk.logs.close()


class Produce:
    """Waits as a produce does."""

    def __init__(self, partition: Partition, *, acks: int) -> None:
        result = append(partition, b"v", acks=acks)
        self.error: KafkaError | None = None
        self.done = asyncio.Event()
        watermark = partition.as_leader().watermark_for(acks)
        if watermark is None:
            self.done.set()
        else:
            watermark.wait_for(result.last_offset + 1, self._wake, token=self)

    def _wake(self, error: KafkaError | None) -> None:
        self.error = error
        self.done.set()

    async def answered(self) -> KafkaError | None:
        async with asyncio.timeout(20):
            await self.done.wait()
        return self.error


@pytest.mark.parametrize("acks", [1, -1])
async def test_an_answer_waits_for_the_disk_where_every_message_is_flushed(disk: Disk, acks: int) -> None:
    partition = disk.partition(flush_messages=1)
    disk.files.gate.clear()
    produce = Produce(partition, acks=acks)
    assert not produce.done.is_set()
    assert partition.high_watermark.value == 0
    disk.files.gate.set()
    assert await produce.answered() is None
    assert partition.log.durable_end == partition.high_watermark.value == 1


async def test_one_flush_covers_everything_that_came_while_the_one_before_ran(disk: Disk) -> None:
    partition = disk.partition(flush_messages=1)
    first = Produce(partition, acks=-1)
    await first.answered()
    disk.files.syncs = 0
    disk.files.gate.clear()
    produces = [Produce(partition, acks=-1) for _ in range(50)]
    disk.files.gate.set()
    assert [await produce.answered() for produce in produces] == [None] * 50
    assert disk.files.syncs == 2


@pytest.mark.parametrize("acks", [1, -1])
async def test_no_request_is_left_waiting_when_the_rest_is_too_little_for_another_flush(disk: Disk, acks: int) -> None:
    partition = disk.partition(flush_messages=3)
    disk.files.gate.clear()
    produces = [Produce(partition, acks=acks) for _ in range(4)]
    assert not produces[3].done.is_set()
    disk.files.gate.set()
    assert [await produce.answered() for produce in produces] == [None] * 4


async def test_a_failed_fsync_fails_the_waiting_takes_the_directory_offline_and_is_not_tried_again(disk: Disk) -> None:
    partition = disk.partition(flush_messages=1)
    disk.files.is_sync_failing = True
    disk.files.syncs = 0
    produces = [Produce(partition, acks=acks) for acks in (1, -1)]
    for produce in produces:
        assert isinstance(await produce.answered(), StorageError)
    assert disk.logs.online_directories == []
    disk.files.is_sync_failing = False
    with pytest.raises(StorageError):
        append(partition, b"after")
    disk.flusher.request(partition)
    assert disk.files.syncs == 1
    assert partition.log.durable_end == partition.high_watermark.value == 0


async def test_a_flush_that_cannot_begin_fails_those_who_wait(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = disk.partition(flush_messages=2)
    errors: list[KafkaError | None] = []
    partition.durable.wait_for(1, errors.append, token=1)

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(LocalLog, "_collect", fail)
    append(partition, b"a", b"b")
    assert [type(error) for error in errors] == [StorageError]


async def test_there_is_nothing_to_flush_in_a_log_that_is_on_disk(disk: Disk) -> None:
    partition = disk.partition()
    disk.flusher.request(partition)
    assert disk.flusher._running == set()


async def test_a_log_that_is_deleted_while_it_is_flushed_does_no_harm(disk: Disk) -> None:
    partition = disk.partition(flush_messages=1)
    disk.files.gate.clear()
    produce = Produce(partition, acks=-1)
    disk.logs.delete("orders", 0)
    disk.files.gate.set()
    await produce.answered()
    assert len(disk.logs.online_directories) == 1


async def test_only_a_few_flushes_are_under_way_at_a_time_and_all_are_done(disk: Disk) -> None:
    disk.files.gate.clear()
    broker = local_broker(request_flush=disk.flusher.request)
    partitions = [host(disk.logs, topic=f"t{number}", broker=broker) for number in range(MOST_AT_ONCE * 2 + 3)]
    for partition in partitions:
        append(partition, b"v")
        disk.flusher.request(partition)
        disk.flusher.request(partition)
    assert len(disk.flusher._running) == MOST_AT_ONCE
    disk.files.gate.set()
    await eventually(lambda: all(partition.log.durable_end == 1 for partition in partitions))
    assert not disk.flusher._waiting
