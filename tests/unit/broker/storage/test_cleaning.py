"""The broker's side of compaction, with real cleaner processes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.storage import cleaning
from millstream.broker.storage.cleaning import LogCleaning
from millstream.files import Files
from millstream.log.compaction.cleaning import Cleaning, cleaning_extent
from millstream.log.compaction.latest_offsets import ENTRY_BYTES
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from tests.manual_clock import ManualClock
from tests.unit.cluster.hosting import NOW_MS, TOPIC_ID
from tests.unit.log.compacted import pairs, write
from tests.unit.log.partition import flush
from tests.waiting import eventually

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=2000, file_delete_delay_ms=0)


class House:
    """Logs and their compaction."""

    def __init__(self, path: Path, executor: ThreadPoolExecutor, **options: str) -> None:
        self.clock = ManualClock(NOW_MS)
        self.logs = LogManager([path], clock=self.clock)
        self.logs.start(node_id=1, cluster_id="tests")
        self.logs.load(lambda _topic: CONFIG)
        self.removed: list[Path] = []
        self.cleaning = LogCleaning(
            self.logs,
            high_watermark_of=lambda log: log.log_end_offset,
            settings=LiveSettings({name.replace("_", "."): value for name, value in options.items()}, node_id=1),
            clock=self.clock,
            executor=executor,
            remove_later=lambda paths, _delay_ms: self.removed.extend(paths),
        )

    def filled(self, topic: str, count: int = 60, *, config: LogConfig = CONFIG) -> Log:
        """A log with updates of four keys, all of it but the active segment on the disk."""
        log = self.logs.create(topic, 0, topic_id=TOPIC_ID, config=config)
        for number in range(count):
            write(log, (b"k%d" % (number % 4), b"%d" % number * 50))
        log.roll(now_ms=NOW_MS)
        flush(log)
        return log


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    with ThreadPoolExecutor(2) as executor:
        house = House(tmp_path, executor)
        yield house
        house.logs.close()


def child_of_this_process() -> int | None:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    named = [pid for pid in children if b"cleaner_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return int(named[0]) if named else None


def latest(log: Log) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in pairs(log)}


async def test_due_logs_are_compacted_and_the_checkpoint_says_so(house: House, tmp_path: Path) -> None:
    logs = [house.filled(topic) for topic in ("orders", "users", "stock")]
    before = [latest(log) for log in logs]
    await house.cleaning.clean_due()
    assert [latest(log) for log in logs] == before
    assert all(len(pairs(log)) == 4 for log in logs)
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n3\norders 0 60\nstock 0 60\nusers 0 60\n"
    assert house.removed
    assert all(path.name.endswith(".deleted") for path in house.removed)
    assert child_of_this_process() is None
    assert not house.cleaning._under_way


async def test_a_log_that_is_clean_or_not_compacted_starts_no_process(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    log = house.filled("orders")
    await house.cleaning.clean_due()
    other = house.filled("users")
    other.update_config(LogConfig())
    monkeypatch.setattr(cleaning, "PROCESS", ("-c", "raise SystemExit('not needed')"))
    await house.cleaning.clean_due()
    assert len(pairs(other)) == 60
    assert len(pairs(log)) == 4


async def test_switched_off_it_does_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        for option in ({"log_cleaner_enable": "false"}, {"log_cleaner_threads": "0"}):
            house = House(tmp_path, executor, **option)
            log = house.filled("orders")
            await house.cleaning.clean_due()
            assert len(pairs(log)) >= 60
            house.logs.close()


async def test_several_processes_share_the_work(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        house = House(tmp_path, executor, log_cleaner_threads="3")
        logs = [house.filled(f"topic{number}") for number in range(5)]
        await house.cleaning.clean_due()
        assert [len(pairs(log)) for log in logs] == [4] * 5
        house.logs.close()


@pytest.mark.parametrize("turns", [0, 1, 5, 50, 500])
async def test_a_process_that_is_killed_costs_only_its_work(house: House, turns: int) -> None:
    log = house.filled("orders", 400)
    before = latest(log)
    running = asyncio.create_task(house.cleaning.clean_due())
    await eventually(lambda: child_of_this_process() or running.done())
    for _ in range(turns):
        await asyncio.sleep(0)
    child = child_of_this_process()
    if child is not None:
        os.kill(child, signal.SIGKILL)
    await running
    assert latest(log) == before
    assert not list(log.path.glob("*.cleaned"))
    assert not house.cleaning._under_way
    await house.cleaning.clean_due()
    assert latest(log) == before
    assert len(pairs(log)) == 4


async def test_a_process_that_talks_nonsense_is_given_up(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    log = house.filled("orders")
    monkeypatch.setattr(cleaning, "PROCESS", ("-c", "input(); print('nonsense')"))
    await house.cleaning.clean_due()
    assert len(pairs(log)) == 60
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    await house.cleaning.clean_due()
    assert len(pairs(log)) == 60


async def test_a_stop_ends_the_process(house: House) -> None:
    house.filled("orders", 400)
    running = asyncio.create_task(house.cleaning.clean_due())
    await eventually(child_of_this_process)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert child_of_this_process() is None
    assert not house.cleaning._under_way


async def test_a_damaged_log_is_left_alone_and_the_others_are_compacted(house: House, caplog: pytest.LogCaptureFixture) -> None:
    damaged, whole = house.filled("orders"), house.filled("users")
    path = damaged.path / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[16] = 9
    path.write_bytes(content)
    await house.cleaning.clean_due()
    assert len(pairs(whole)) == 4
    assert "until the next start" in caplog.text
    caplog.clear()
    await house.cleaning.clean_due()
    assert caplog.messages == []


async def test_a_log_whose_age_cannot_be_read_is_left_alone_and_the_others_are_compacted(house: House) -> None:
    other = house.filled("users")
    damaged = house.filled("orders", config=replace(CONFIG, max_compaction_lag_ms=1000))
    damaged.segments.release()
    path = damaged.path / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[16] = 7  # the magic of the first batch
    path.write_bytes(content)
    for segment in damaged.segments:
        segment._first_timestamp = None  # as after a restart
    await house.cleaning.clean_due()
    assert len(pairs(other)) == 4


async def test_a_log_that_is_deleted_meanwhile_is_given_up(house: House) -> None:
    house.filled("orders", 400)
    running = asyncio.create_task(house.cleaning.clean_due())
    await eventually(lambda: house.removed or running.done())
    house.logs.delete("orders", 0)
    await running
    other = house.filled("orders", 8)
    await house.cleaning.clean_due()
    assert len(pairs(other)) == 4


@pytest.mark.slow
async def test_the_rate_is_kept(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        house = House(tmp_path, executor, log_cleaner_io_max_bytes_per_second="400000")
        log = house.filled("orders", 3000, config=replace(CONFIG, segment_bytes=1 << 20))
        size = log.size_bytes
        started = asyncio.get_running_loop().time()
        await house.cleaning.clean_due()
        seconds = asyncio.get_running_loop().time() - started
        assert len(pairs(log)) == 4
        # Read twice; what is written is little. The last quarter of a megabyte is not waited for.
        assert seconds > (2 * size - (256 << 10)) / 3_000_000 * 0.9
        house.logs.close()


def test_leftovers_go_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    path.mkdir()
    for name in ("00000000000000000000.log.cleaned", "00000000000000000000.index.swap"):
        Files().open(path / name, create=True)
    logs = LogManager([tmp_path], clock=ManualClock(NOW_MS))
    logs.start(node_id=1, cluster_id="tests")
    logs.load(lambda _topic: CONFIG)
    assert not [*path.glob("*.cleaned"), *path.glob("*.swap")]
    logs.close()


async def test_with_little_memory_a_log_is_taken_up_again_until_it_is_clean(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        house = House(tmp_path, executor, log_cleaner_dedupe_buffer_size=str(3 * ENTRY_BYTES))
        log = house.filled("orders", 60, config=replace(CONFIG, min_cleanable_dirty_ratio=0.0))
        await house.cleaning.clean_due()
        assert house.logs.directories[0].cleaned_offsets == {("orders", 0): 60}
        assert len(pairs(log)) == 4
        house.logs.close()


async def test_a_new_topic_does_not_inherit_how_far_an_older_one_was_compacted(house: House, tmp_path: Path) -> None:
    house.filled("orders")
    await house.cleaning.clean_due()
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    assert checkpoint.read_text() == "0\n1\norders 0 60\n"
    house.logs.delete("orders", 0)
    house.logs.create("orders", 0, topic_id=TOPIC_ID, config=CONFIG)
    assert checkpoint.read_text() == "0\n0\n"


async def test_a_compaction_that_ends_after_its_topic_was_made_again_says_nothing_of_the_new_one(house: House, tmp_path: Path) -> None:
    old = house.filled("orders")
    extent = cleaning_extent(old, NOW_MS, high_watermark=old.log_end_offset)
    cleaning = Cleaning(old, extent, now_ms=NOW_MS, dedupe_buffer_bytes=1 << 20, io_buffer_bytes=1000)
    house.logs.delete("orders", 0)
    house.logs.create("orders", 0, topic_id=TOPIC_ID, config=CONFIG)
    assert not cleaning.complete(60)
    assert house.logs.directories[0].cleaned_offsets == {}
