import errno
import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from millstream.clock import SystemClock
from millstream.errors import StartupError
from millstream.files import FileHandle, Files
from millstream.processes.layout import CHANGE_FILE, Layout
from millstream.processes.machine_data import MachineData
from tests.crash.test_log_power_cut import QuickFiles


class PlanStays(QuickFiles):
    """The end comes just before the plan of a change is removed."""

    def unlink(self, path: Path) -> None:
        if path.name == CHANGE_FILE:
            raise OSError(errno.EIO, "the end")
        super().unlink(path)


def names_in(path: Path) -> list[Path]:
    return sorted(path.rglob("*"))


class Failing(QuickFiles):
    """Something about some files does not work."""

    def __init__(self, *, error: int, operation: str, path: Path) -> None:
        self._error = error
        self._operation = operation
        self._path = path

    def _check(self, operation: str, path: Path) -> None:
        if operation in self._operation and path.is_relative_to(self._path):
            raise OSError(self._error, os.strerror(self._error), str(path))

    def exists(self, path: Path) -> bool:
        self._check("look", path)
        return super().exists(path)

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        self._check("open", path)
        return super().open(path, create=create, read_only=read_only)

    def make_directory(self, path: Path) -> None:
        self._check("make", path)
        super().make_directory(path)


async def arrange(*data: Path, layout: Layout, files: Files | None = None) -> None:
    machine = MachineData(data, clock=SystemClock(), files=files or QuickFiles())
    async with machine.opened():
        await machine.arrange(layout)


async def test_a_broker_that_is_alone_keeps_its_number(tmp_path: Path) -> None:
    await arrange(tmp_path, layout=Layout.of_processes(2))
    await arrange(tmp_path, layout=Layout.alone(1))
    with pytest.raises(StartupError, match=r"belongs to node 1, this is node 5: give --node-id 1"):
        await arrange(tmp_path, layout=Layout.alone(5))
    await arrange(tmp_path, layout=Layout.of_processes(2))
    await arrange(tmp_path, layout=Layout.alone(5))


@pytest.mark.parametrize("files", [QuickFiles, PlanStays])
@pytest.mark.parametrize(("before", "layout"), [(Layout.of_processes(2), Layout.alone(1)), (Layout.alone(1), Layout.of_processes(2))])
async def test_a_disk_that_is_away_after_a_change_is_missed_before_any_broker_was_there(
    tmp_path: Path, before: Layout, layout: Layout, files: type[Files]
) -> None:
    one, two, away = tmp_path / "one", tmp_path / "two", tmp_path / "away"
    await arrange(one, two, layout=before)
    with suppress(StartupError):
        await arrange(one, two, layout=layout, files=files())
    two.rename(away)
    with pytest.raises(StartupError, match=rf"missing: {re.escape(str(two))}"):
        await arrange(one, two, layout=layout)
    assert not two.exists()
    away.rename(two)
    one.rename(away)
    with pytest.raises(StartupError, match="coordination tree"):
        await arrange(one, two, layout=layout)
    away.rename(one)
    await arrange(one, two, layout=layout)


async def test_a_disk_that_answers_with_errors_stops_only_a_change(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    await arrange(one, two, layout=Layout.of_processes(2))
    dead = Failing(error=errno.EIO, operation="look open make", path=two)
    await arrange(one, two, layout=Layout.of_processes(2), files=dead)
    with pytest.raises(StartupError, match=rf"{re.escape(str(two))} cannot be used; start with 2 processes as before"):
        await arrange(one, two, layout=Layout.of_processes(3), files=dead)


@pytest.mark.parametrize("full", ["one", "two"])
async def test_a_change_that_cannot_be_written_down_touches_nothing(tmp_path: Path, full: str) -> None:
    data = [tmp_path / "one", tmp_path / "two"]
    await arrange(*data, layout=Layout.of_processes(2))
    before = names_in(tmp_path)
    no_space = Failing(error=errno.ENOSPC, operation="open", path=tmp_path / full / f"{CHANGE_FILE}.tmp")
    with pytest.raises(StartupError, match=rf"none was touched: .*{full}.*: No space left on device; .* start with 2 processes as before"):
        await arrange(*data, layout=Layout.alone(1), files=no_space)
    assert names_in(tmp_path) == before


async def test_a_change_that_fails_halfway_says_so_and_goes_on_at_the_next_start(tmp_path: Path) -> None:
    await arrange(tmp_path, layout=Layout.of_processes(2))
    no_space = Failing(error=errno.ENOSPC, operation="make", path=tmp_path / "process.3")
    with pytest.raises(
        StartupError, match=r"from 2 processes to 3 processes is not finished: .*process\.3: No space .* goes on where it was"
    ):
        await arrange(tmp_path, layout=Layout.of_processes(3), files=no_space)
    assert (tmp_path / CHANGE_FILE).exists()
    await arrange(tmp_path, layout=Layout.of_processes(3))
    assert not (tmp_path / CHANGE_FILE).exists()


async def test_the_plan_of_a_change_that_never_counted_is_removed(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    await arrange(one, two, layout=Layout.of_processes(2))
    (two / CHANGE_FILE).write_text("a power cut came before the one beside the tree was written")
    await arrange(one, two, layout=Layout.of_processes(2))
    assert not (two / CHANGE_FILE).exists()


class OthersFiles(QuickFiles):
    """The files of another user."""

    def exists(self, path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))


async def test_the_directory_of_another_user_is_refused_with_what_to_do(tmp_path: Path) -> None:
    machine = MachineData([tmp_path], clock=SystemClock(), files=OthersFiles())
    with pytest.raises(StartupError, match=f"{tmp_path} cannot be used: Permission denied; start as the user it belongs to"):
        async with machine.opened():
            pass
