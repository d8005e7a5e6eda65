"""The broker's side of logs that move between directories."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from errno import EIO
from pathlib import Path
from threading import Event

import pytest

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.storage import log_moves
from millstream.broker.storage.log_moves import LogMoves
from millstream.errors import InvalidTopic, StorageError
from millstream.files import FileHandle, Files
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from millstream.log.moving.future_log import FutureLog
from millstream.log.moving.log_move import LogMove
from tests.manual_clock import ManualClock
from tests.unit.cluster.hosting import NOW_MS, TOPIC_ID
from tests.unit.log.moving_log import CONFIG
from tests.unit.log.partition import append, append_many, read_all
from tests.waiting import eventually


class GatedFiles(Files):
    """Lets nothing be read or written below `closed` until it is open again."""

    def __init__(self) -> None:
        self.gate = Event()
        self.gate.set()
        self.leaving = Event()
        """Whether logs that moved away may lose their name."""
        self.leaving.set()
        self.error: Exception | None = None
        self.on_sync: Callable[[], None] = lambda: None

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        if path.parent.name.endswith("-future") and path.suffix == ".log":
            assert self.gate.wait(30)
            if self.error is not None:
                raise self.error
        return super().open(path, create=create, read_only=read_only)

    def rename(self, source: Path, target: Path) -> None:
        if target.name.endswith("-delete") and not source.name.endswith("-future"):
            assert self.leaving.wait(30)
        super().rename(source, target)

    def fsync_directory(self, path: Path) -> None:
        super().fsync_directory(path)
        if path.name.endswith("-future"):
            self.on_sync()


class House:
    """Logs in three directories, and their moves."""

    def __init__(self, root: Path, executor: ThreadPoolExecutor, *, files: Files | None = None, **options: str) -> None:
        self.files = GatedFiles()
        self.clock = ManualClock(NOW_MS)
        self.logs = LogManager([root / name for name in "abc"], clock=self.clock, files=files or self.files)
        self.logs.start(node_id=1, cluster_id="tests")
        report = self.logs.load(lambda _topic: CONFIG)
        self.flushes: list[Log] = []
        self.removed: list[Path] = []
        self.moves = LogMoves(
            self.logs,
            high_watermark_of=lambda log: log.log_end_offset,
            settings=LiveSettings({name.replace("_", "."): value for name, value in options.items()}, node_id=1),
            clock=self.clock,
            executor=executor,
            flush=self.flushes.append,
            remove_later=lambda path, _delay_ms: self.removed.append(path),
        )
        self.moves.resume(report.moves)
        self.task = asyncio.ensure_future(self.moves.run())

    def filled(self, topic: str = "orders", count: int = 30) -> Log:
        log = self.logs.create(topic, 0, topic_id=TOPIC_ID, config=CONFIG)
        append_many(log, count)
        return log

    async def stop(self) -> None:
        self.files.gate.set()
        self.files.leaving.set()
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    @property
    def is_idle(self) -> bool:
        return not self.moves._moves and not self.moves._busy


@pytest.fixture
async def executor() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


@pytest.fixture
async def house(tmp_path: Path, executor: ThreadPoolExecutor) -> AsyncIterator[House]:
    house = House(tmp_path, executor)
    yield house
    await house.stop()
    house.logs.close()


def futures_in(root: Path) -> list[Path]:
    return list(root.glob("*/*-future"))


def current_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("*/*-0"))


async def test_logs_move_while_they_are_written_to(house: House, tmp_path: Path) -> None:
    logs = [house.filled(f"topic-{number}") for number in range(6)]
    for log in logs:
        log.update_config(replace(CONFIG, segment_bytes=60_000))
    a, b, _ = house.logs.directories
    for log in logs:
        await house.moves.begin(log, b if log.directory is a else a)
    while not house.is_idle:
        for log in logs:
            append(log, str(log.log_end_offset).encode().ljust(100, b"."))
        await asyncio.sleep(0)
    assert current_in(tmp_path) == [f"topic-{number}-0" for number in range(6)]
    for log in logs:
        assert [record.offset for record in read_all(log)] == list(range(log.log_end_offset))
        assert log in house.flushes
    assert {path.suffix.partition("-")[2] for path in house.removed} == {"delete"}
    assert len(house.removed) == 6


async def test_a_log_that_is_asked_for_where_it_is_stays_there(house: House, tmp_path: Path) -> None:
    log = house.filled()
    a, b, _ = house.logs.directories
    house.files.gate.clear()
    await house.moves.begin(log, b)
    await house.moves.begin(log, b)
    move = house.moves.of(log)
    assert move is not None
    assert move.target is b
    await house.moves.begin(log, a)
    assert futures_in(tmp_path) == []
    assert house.moves.of(log) is None
    house.files.gate.set()
    await eventually(lambda: house.is_idle)
    assert log.directory is a
    assert b.offline is None
    assert len(house.removed) == 1
    assert not log.local.is_moving


async def test_a_log_that_is_asked_for_elsewhere_moves_there_instead(house: House, tmp_path: Path) -> None:
    log = house.filled()
    _, b, c = house.logs.directories
    house.files.gate.clear()
    await house.moves.begin(log, b)
    await house.moves.begin(log, c)
    assert [path.parent.name for path in futures_in(tmp_path)] == ["c"]
    house.files.gate.set()
    await eventually(lambda: house.is_idle)
    assert log.directory is c
    assert len(read_all(log)) == 30
    await house.moves.begin(log, b)
    await eventually(lambda: house.is_idle)
    assert log.directory is b
    assert len(read_all(log)) == 30


async def test_a_log_that_is_deleted_while_it_moves_leaves_nothing(house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = house.filled()
    _, b, _ = house.logs.directories
    house.files.gate.clear()
    await house.moves.begin(log, b)
    house.logs.delete("orders", 0)
    assert house.moves.of(log) is None
    # At once: a copy that a start finds without its log is kept for ever, as the last one that there is.
    assert futures_in(tmp_path) == []
    house.files.gate.set()
    with caplog.at_level(logging.WARNING):
        await eventually(lambda: house.is_idle)
    assert futures_in(tmp_path) == []
    assert caplog.records == []
    assert [directory.offline for directory in house.logs.directories] == [None] * 3


async def test_a_move_that_fails_says_so_once_and_the_log_lives_on(house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = house.filled()
    a, b, _ = house.logs.directories
    house.files.error = OSError(28, "No space left on device")
    with caplog.at_level(logging.WARNING):
        await house.moves.begin(log, b)
        await eventually(lambda: house.is_idle)
    assert [record.getMessage() for record in caplog.records] == [
        f"orders-0 stays in {a.path} and does not move to {b.path}: {b.path} is full"
    ]
    assert b.offline is None
    assert futures_in(tmp_path) == []
    append_many(log, 1)
    house.files.error = None
    await house.moves.begin(log, b)
    await eventually(lambda: house.is_idle)
    assert log.directory is b


async def test_a_disk_that_fails_ends_the_moves_to_it(house: House, caplog: pytest.LogCaptureFixture) -> None:
    logs = [house.filled("orders"), house.filled("users")]
    a, b, c = house.logs.directories
    assert [log.directory for log in logs] == [a, b]
    house.files.error = OSError(5, "Input/output error")
    for log in logs:
        await house.moves.begin(log, c)
    await eventually(lambda: house.is_idle)
    assert c.offline is not None
    assert [log.directory for log in logs] == [a, b]
    for log in logs:
        append_many(log, 1)
    with pytest.raises(StorageError, match="while one of them is offline"):
        await house.moves.begin(logs[0], b)


def fails(error: Exception) -> Callable[..., None]:
    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("where", ["complete", "prepare", "swap", "settle", "forget_mark", "begin"])
async def test_whatever_comes_up_in_a_move_is_no_harm_to_others(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    log, other = house.filled("orders"), house.filled("users")
    a, b, c = house.logs.directories
    for step in (FutureLog, LogMove) if where != "forget_mark" else ():
        if hasattr(step, where):
            monkeypatch.setattr(step, where, fails(MemoryError()))
    if where == "forget_mark":
        monkeypatch.setattr(LogMove, "swap", fails(MemoryError()))
        monkeypatch.setattr(LogMove, "forget_mark", fails(MemoryError()))
    await house.moves.begin(log, c)
    await eventually(lambda: house.is_idle)
    assert log.directory is (c if where == "settle" else a)
    assert futures_in(tmp_path) == []
    monkeypatch.undo()
    append_many(log, 1)
    await house.moves.begin(other, c)
    await house.moves.begin(log, b)
    await eventually(lambda: house.is_idle)
    assert not house.task.done()
    assert [log.directory, other.directory] == [b, c]
    assert len(read_all(log)) == 31
    assert not log.local.is_moving


async def test_a_move_that_cannot_begin_is_not_taken_for_one(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    log = house.filled()
    _, b, _ = house.logs.directories
    monkeypatch.setattr(FutureLog, "make", fails(MemoryError()))
    with pytest.raises(MemoryError):
        await house.moves.begin(log, b)
    assert house.moves.of(log) is None
    assert not log.local.is_moving
    monkeypatch.undo()
    await house.moves.begin(log, b)
    await eventually(lambda: house.is_idle)
    assert log.directory is b


async def test_a_source_whose_small_files_cannot_be_looked_at_goes_offline_alone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    log, other = house.filled("orders"), house.filled("users")
    a, b, c = house.logs.directories
    look = Files.status

    def status(files: Files, path: Path) -> object:
        if path.parent == log.path:
            raise OSError(EIO, "Input/output error")
        return look(files, path)

    monkeypatch.setattr(Files, "status", status)
    await house.moves.begin(log, c)
    await eventually(lambda: house.is_idle)
    assert not house.task.done()
    assert a.offline is not None
    assert [b.offline, c.offline] == [None, None]
    append_many(other, 1)


async def test_a_log_that_goes_on_faster_than_the_disk_syncs_arrives(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_moves, "FIRST_TAIL_BYTES", 1000)
    monkeypatch.setattr(log_moves, "LAST_TAIL_BYTES", 1000)
    monkeypatch.setattr(log_moves, "LITTLE_TAIL_BYTES", 1000)
    log = house.filled()
    log.update_config(replace(CONFIG, segment_bytes=3000))
    loop, syncs = asyncio.get_running_loop(), 0

    def go_on() -> None:
        nonlocal syncs
        syncs += 1
        appended = Event()
        loop.call_soon_threadsafe(append_many, log, 100)
        loop.call_soon_threadsafe(appended.set)
        assert appended.wait(30)

    house.files.on_sync = go_on
    _, b, _ = house.logs.directories
    await house.moves.begin(log, b)
    await eventually(lambda: house.is_idle)
    assert log.directory is b
    assert syncs == 1
    assert [record.offset for record in read_all(log)] == list(range(130))
    assert len(log.segments) > 5
    house.logs.close()
    again = LogManager([directory.path for directory in house.logs.directories], clock=house.clock)
    again.start(node_id=1, cluster_id="tests")
    again.load(lambda _topic: CONFIG)
    found = again.get("orders", 0)
    assert found is not None
    assert len(read_all(found)) == 130
    again.close()


async def test_records_that_are_deleted_while_the_copy_is_synced_stay_deleted_after_a_kill(
    house: House, tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    log = house.filled()
    _, b, _ = house.logs.directories
    syncs: list[int] = []

    def delete() -> None:
        log.delete_records_before(2)
        house.logs.write_checkpoints()
        syncs.append(len(syncs))

    house.files.on_sync = delete
    house.files.leaving.clear()
    await house.moves.begin(log, b)
    await eventually(lambda: log.directory is b)
    assert syncs == [0]  # a copy that is complete is not made once more for it
    for directory in house.logs.directories:
        directory.release()
    again = LogManager([directory.path for directory in house.logs.directories], clock=house.clock)
    again.start(node_id=1, cluster_id="tests")
    again.load(lambda _topic: CONFIG)
    found = again.get("orders", 0)
    assert found is not None
    assert found.log_start_offset == 2
    again.close()


async def test_a_log_that_has_just_arrived_may_be_sent_back(house: House, tmp_path: Path) -> None:
    log = house.filled()
    a, b, _ = house.logs.directories
    house.files.leaving.clear()
    await house.moves.begin(log, b)
    await eventually(lambda: log.directory is b)
    back = asyncio.ensure_future(house.moves.begin(log, a))
    await asyncio.sleep(0)
    house.files.leaving.set()
    await back
    await eventually(lambda: house.is_idle)
    assert log.directory is a
    assert current_in(tmp_path) == ["orders-0"]
    assert len(read_all(log)) == 30


async def test_what_cannot_be_moved_is_refused(house: House) -> None:
    log = house.filled()
    _, b, _ = house.logs.directories
    (b.path / "orders-0").mkdir()
    with pytest.raises(StorageError, match="is in the way"):
        await house.moves.begin(log, b)
    named = house.filled("t" * 230)
    with pytest.raises(InvalidTopic, match="too long"):
        await house.moves.begin(named, next(one for one in house.logs.directories if one is not named.directory))
    assert house.is_idle


async def test_a_move_goes_on_after_a_restart(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    house = House(tmp_path, executor)
    log = house.filled()
    house.files.gate.clear()
    await house.moves.begin(log, house.logs.directories[1])
    await house.stop()
    house.logs.close()
    assert len(futures_in(tmp_path)) == 1
    again = House(tmp_path, executor)
    found = again.logs.get("orders", 0)
    assert found is not None
    await eventually(lambda: again.is_idle)
    assert found.directory.path.name == "b"
    assert len(read_all(found)) == 30
    await again.stop()
    again.logs.close()


async def test_a_move_keeps_to_its_rate(tmp_path: Path, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_moves, "PAUSE_S", 0.001)
    house = House(tmp_path, executor, replica_alter_log_dirs_io_max_bytes_per_second="100000")
    log = house.filled(count=0)
    log.update_config(replace(CONFIG, segment_bytes=20_000))
    append_many(log, 60, size=5000)
    _, b, _ = house.logs.directories
    await house.moves.begin(log, b)
    began_ms = house.clock.now_ms()
    while not house.is_idle:
        await asyncio.sleep(0.001)
        house.clock.advance(50)
    assert log.directory is b
    assert house.clock.now_ms() - began_ms >= 2000  # 300 kB, of which the first portion and the last need no pause
    await house.stop()
    house.logs.close()
