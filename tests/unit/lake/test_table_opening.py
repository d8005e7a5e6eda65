import errno
from pathlib import Path
from threading import Barrier, Thread

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from pyarrow import fs

from millstream.lake import table_opening
from millstream.lake.errors import LoadConflict, TableMismatch
from millstream.lake.place import Place
from millstream.lake.result_table import ResultTable
from millstream.lake.table_opening import find_table

ROWS = pa.table({"n": [1, 2, 3]})


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "clicks")


def make_table(address: str) -> None:
    DeltaTable.create(address, DeltaSchema.from_arrow(ROWS.schema), mode="ignore")


def find(address: str) -> DeltaTable | None:
    return find_table(address, is_leftover=lambda name: name == "left", advice="move it away")


def test_nothing_and_leftovers_are_no_table(address: str) -> None:
    assert find(address) is None
    Path(address, "left").mkdir(parents=True)
    assert find(address) is None


def test_a_log_without_commits_is_no_table_yet_and_one_can_be_made(address: str) -> None:
    log = Path(address, "_delta_log")
    log.mkdir(parents=True)
    Path(log, "_commit_7b1f.json.tmp").write_text("half a comm")
    assert find(address) is None
    make_table(address)
    assert find(address) is not None


def test_anything_else_is_refused(address: str) -> None:
    Path(address).write_text("a file")
    with pytest.raises(TableMismatch, match="cannot be opened as a Delta table"):
        find(address)
    Path(address).unlink()
    Path(address).mkdir()
    Path(address, "mine.txt").write_text("a file")
    with pytest.raises(TableMismatch, match="is no Delta table: move it away"):
        find(address)


@pytest.mark.parametrize("step", ["_is_free", "_has_commits"])
def test_a_table_that_another_one_makes_between_two_looks_is_opened(address: str, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    look = getattr(table_opening, step)

    def look_later(*given: object) -> object:
        make_table(address)
        return look(*given)

    monkeypatch.setattr(table_opening, step, look_later)
    assert find(address) is not None


class DirectoryMadeLate(fs.LocalFileSystem):  # type: ignore[misc]
    """Arrow's complaint when another one makes a directory between its two looks for it."""

    def get_file_info(self, wanted: str | fs.FileSelector) -> object:
        if isinstance(wanted, fs.FileSelector) and not Path(wanted.base_dir).exists():
            make_table(str(Path(wanted.base_dir).parent))
            raise FileNotFoundError(errno.ENOENT, "Cannot list directory", wanted.base_dir)
        return super().get_file_info(wanted)


def test_a_directory_that_another_one_makes_while_it_is_listed_is_listed_again(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(address).mkdir()
    monkeypatch.setattr(table_opening, "open_place", lambda address: Place(DirectoryMadeLate(), address))
    assert find(address) is not None


def test_writers_that_begin_at_the_same_moment_make_one_table(tmp_path: Path) -> None:
    """Each appends its rows or is told of the others; nobody takes the table in the making for something else."""
    for number in range(30):
        table, together = ResultTable(str(tmp_path / str(number))), Barrier(3)
        refused: list[str] = []

        def append(name: str, table: ResultTable = table, together: Barrier = together, refused: list[str] = refused) -> None:
            together.wait(30)
            try:
                table.append(ROWS, name, 0)
            except LoadConflict as error:
                refused.append(str(error))

        writers = [Thread(target=append, args=(name,)) for name in ("one", "two", "three")]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
        assert DeltaTable(table.address).to_pyarrow_table().num_rows == 3 * (3 - len(refused))
