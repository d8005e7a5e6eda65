"""The broker's moves between disks, and the end of the process after every single file operation of one: carried out, taken back, or given
up because the log was deleted. What the next start finds is one log with everything in it, or none where it was deleted; nothing else is
kept, and what was begun is carried out.
"""

import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import RLock

import pytest

from millstream.files import FileHandle
from tests.crash.forgetful_files import Fate, ForgetfulFiles, disk_after, materialise
from tests.crash.test_log_power_cut import QuickFiles, release
from tests.unit.broker.storage.test_log_moves import House
from tests.unit.log.partition import read_all
from tests.waiting import eventually

COUNT = 30
Deed = Callable[[House, Path], Awaitable[None]]


@pytest.fixture
async def executor() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


async def carry_out(house: House, _: Path) -> None:
    await eventually(lambda: house.is_idle)


async def take_back(house: House, root: Path) -> None:
    await until_copied(house, root)
    log = house.logs.get("orders", 0)
    assert log is not None
    await house.moves.begin(log, house.logs.directories[0])
    await eventually(lambda: house.is_idle)


async def delete(house: House, root: Path) -> None:
    await until_copied(house, root)
    log = house.logs.get("orders", 0)
    assert log is not None
    await eventually(lambda: not log.local.is_arriving)  # as those do who delete logs
    deleted = house.logs.delete("orders", 0)
    assert deleted is not None
    house.removed.append(deleted)
    await eventually(lambda: house.is_idle)


async def until_copied(house: House, root: Path) -> None:
    """Until there is something of the copy, or it is the log already."""
    await eventually(lambda: bool([*root.glob("b/*-future/*.log"), *root.glob("b/orders-0/*.log")]) or house.is_idle)


class SharedFiles(ForgetfulFiles):
    """Notes of what several threads do, one operation after the other."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._turn = RLock()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        with self._turn:
            if not path.parent.exists():
                raise FileNotFoundError(errno.ENOENT, "its directory has another name by now", str(path))
            return super().open(path, create=create, read_only=read_only)

    def rename(self, source: Path, target: Path) -> None:
        with self._turn:
            super().rename(source, target)

    def unlink(self, path: Path) -> None:
        with self._turn:
            super().unlink(path)

    def make_directory(self, path: Path) -> None:
        with self._turn:
            super().make_directory(path)


async def lived(root: Path, executor: ThreadPoolExecutor, deed: Deed) -> tuple[ForgetfulFiles, int, int]:
    """A life in which a log moves; the operations at which that was promised, and at which it was over."""
    files = SharedFiles(root)
    house = House(root, executor, files=files)
    log = house.filled(count=COUNT)
    await house.moves.begin(log, house.logs.directories[1])
    promised = len(files.recording.operations)
    await deed(house, root)
    for path in house.removed:
        house.logs.remove_directory(path)
    await house.stop()
    release(house.logs)
    return files, promised, len(files.recording.operations)


@pytest.mark.parametrize("deed", [carry_out, take_back, delete])
async def test_the_next_start_finds_one_log_or_none_and_goes_on(tmp_path: Path, executor: ThreadPoolExecutor, deed: Deed) -> None:
    root = tmp_path / "lived"
    materialise({}, root=root, target=root)
    files, promised, over = await lived(root, executor, deed)
    for moment in range(promised, over + 1):
        target = tmp_path / str(moment)
        materialise(disk_after(files.recording, moment, Fate.ALL_KEPT), root=root, target=target)
        house = House(target, executor, files=QuickFiles())
        await eventually(lambda house=house: house.is_idle)  # type: ignore[misc]
        left = sorted(f"{path.parent.name}/{path.name}" for path in target.glob("?/orders-0*") if not path.name.endswith("-delete"))
        log = house.logs.get("orders", 0)
        if deed is carry_out:
            assert left == ["b/orders-0"], moment
        elif deed is take_back:
            assert left in (["a/orders-0"], ["b/orders-0"]), moment
        else:
            assert left in ([], ["a/orders-0"], ["b/orders-0"]), moment
            assert left == [] or moment < over
        assert (log is None) == (left == [])
        assert log is None or len(read_all(log)) == COUNT
        await house.stop()
        release(house.logs)
