import asyncio
import errno
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from millstream.files import FileHandle
from millstream.zookeeper import durability, journal
from millstream.zookeeper.errors import TreeOffline
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.operations import Create
from tests.manual_clock import ManualClock
from tests.unit.zookeeper.failing_files import FailingFiles
from tests.waiting import eventually


@pytest.fixture
def files() -> FailingFiles:
    return FailingFiles()


@pytest.fixture
async def keeper(tmp_path: Path, files: FailingFiles, clock: ManualClock) -> AsyncIterator[TreeKeeper]:
    keeper = await TreeKeeper.open(tmp_path, files=files, clock=clock)
    yield keeper
    files.gate.set()
    await keeper.close()


def write(keeper: TreeKeeper, path: str) -> None:
    keeper.execute([Create(path)], session_id=0)


async def test_a_write_is_durable_after_its_sync_and_not_before(keeper: TreeKeeper, files: FailingFiles) -> None:
    files.gate.clear()
    write(keeper, "/a")
    waiting = asyncio.create_task(keeper.durability.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    files.gate.set()
    await waiting
    assert keeper.durability.is_current


async def test_one_sync_covers_every_write_that_waits(keeper: TreeKeeper, files: FailingFiles) -> None:
    files.gate.clear()
    waiting = []
    for number in range(50):
        write(keeper, f"/n{number}")
        waiting.append(asyncio.create_task(keeper.durability.wait()))
        await asyncio.sleep(0)
    files.gate.set()
    await asyncio.gather(*waiting)
    assert files.syncs <= 3


async def test_callbacks_come_in_the_order_of_the_writes(keeper: TreeKeeper) -> None:
    order: list[int] = []
    for number in range(5):
        write(keeper, f"/n{number}")
        keeper.durability.when_durable(partial(order.append, number))
    await keeper.durability.wait()
    assert order == [0, 1, 2, 3, 4]
    keeper.durability.when_durable(lambda: order.append(5))
    assert order[-1] == 5


async def test_a_failed_sync_takes_the_tree_offline_and_is_never_repeated(keeper: TreeKeeper, files: FailingFiles) -> None:
    reported: list[str] = []
    keeper.durability.on_failure(lambda: reported.append("failed"))
    files.is_sync_failing = True
    write(keeper, "/a")
    with pytest.raises(TreeOffline, match="input/output error"):
        await keeper.durability.wait()
    files.is_sync_failing = False
    assert reported == ["failed"]
    syncs = files.syncs
    for attempt in (lambda: write(keeper, "/b"), lambda: keeper.open_session(1000), lambda: keeper.close_session(1)):
        with pytest.raises(TreeOffline):
            attempt()
    with pytest.raises(TreeOffline):
        await keeper.durability.wait()
    await keeper.close()
    assert files.syncs == syncs


async def test_a_full_disk_takes_the_tree_offline_and_a_restart_has_everything_acknowledged(
    keeper: TreeKeeper, files: FailingFiles, tmp_path: Path, clock: ManualClock
) -> None:
    write(keeper, "/a")
    await keeper.durability.wait()
    files.is_write_failing = True
    with pytest.raises(TreeOffline, match="no space"):
        write(keeper, "/b")
    files.is_write_failing = False
    await keeper.close()
    again = await TreeKeeper.open(tmp_path, files=files, clock=clock)
    assert "/a" in again.tree.nodes
    assert "/b" not in again.tree.nodes
    await again.close()


async def test_closing_waits_for_what_was_written(keeper: TreeKeeper, files: FailingFiles) -> None:
    done: list[str] = []
    files.gate.clear()
    write(keeper, "/a")
    keeper.durability.when_durable(lambda: done.append("a"))
    write(keeper, "/b")
    keeper.durability.when_durable(lambda: done.append("b"))
    closing = asyncio.create_task(keeper.close())
    await asyncio.sleep(0)
    files.gate.set()
    await closing
    assert done == ["a", "b"]


async def test_a_sync_that_found_no_descriptor_is_tried_again(
    keeper: TreeKeeper, files: FailingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "DESCRIPTOR_RETRY_S", 0.001)
    failures = [OSError(errno.EMFILE, "Too many open files")] * 3
    really_sync = files.fsync_directory

    def sync(directory: Path) -> None:
        if failures:
            raise failures.pop()
        really_sync(directory)

    monkeypatch.setattr(files, "fsync_directory", sync)
    keeper._journal._is_directory_unsynced = True
    write(keeper, "/a")
    await keeper.durability.wait()
    assert not failures
    assert keeper.durability.failure is None


async def test_a_journal_that_finds_no_descriptor_for_the_next_one_goes_on_with_itself(
    keeper: TreeKeeper, files: FailingFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(journal, "_SNAPSHOT_AFTER_BYTES", 1)

    def refuse(*_arguments: object, **_options: object) -> FileHandle:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as exhausted:
        exhausted.setattr(files, "open", refuse)
        write(keeper, "/a")
    await keeper.durability.wait()
    assert keeper.durability.failure is None
    assert len(files.list_directory(tmp_path)) == 1
    write(keeper, "/b")
    await keeper.durability.wait()
    await eventually(lambda: any(name.startswith("snapshot.") for name in files.list_directory(tmp_path)))
    assert {"/a", "/b"} <= set(keeper.tree.nodes)
