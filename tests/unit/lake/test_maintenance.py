import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from millstream.errors import CommandFailed, UsageError
from millstream.lake.columns import file_schema
from millstream.lake.delta_table import DeltaWriter
from millstream.lake.maintenance import maintain, tables_at
from tests.unit.lake.test_delta_table import VALUE, batch, numbers, write_files

LONG_AGO = 1_000_000_000


def make_table(address: str, commits: int) -> None:
    for number in range(commits):
        DeltaWriter(address).commit(batch(address, number, number, number + 1), file_schema(VALUE))


def data_files(address: str) -> list[Path]:
    return sorted(Path(address).rglob("*.parquet")) if Path(address).exists() else []


def test_small_files_become_one_and_old_ones_go(tmp_path: Path) -> None:
    address = str(tmp_path / "clicks")
    make_table(address, 5)
    orphan = Path(address) / write_files(address, 100, 1)[0].path
    done = maintain(address)
    assert (done.files_before, done.files_after, done.removed) == (5, 1, 0)
    for path in data_files(address):
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert maintain(address, compacts=False, dry_run=True).removed >= 1
    assert orphan.exists()
    maintain(address, compacts=False, retention_hours=1)
    assert not orphan.exists()
    assert numbers(address) == [0, 1, 2, 3, 4]
    # What makes loads exact is still known.
    assert DeltaWriter(address).positions("clicks", [0]) == {0: 5}
    assert not DeltaWriter(address).commit(batch(address, 4, 4, 5), file_schema(VALUE))
    assert DeltaWriter(address).commit(batch(address, 5, 5, 6), file_schema(VALUE))
    assert DeltaTable(address).schema().to_arrow().field("n").type == pa.int64()


def test_what_could_harm_a_load_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        maintain(str(tmp_path), retention_hours=0)
    with pytest.raises(CommandFailed, match="There is no Delta table"):
        maintain(str(tmp_path / "nothing"))


def test_the_tables_of_a_lake_are_found(tmp_path: Path) -> None:
    for name in ("views", "clicks"):
        make_table(str(tmp_path / name), 1)
    (tmp_path / "notes").mkdir()
    assert tables_at(str(tmp_path)) == [str(tmp_path / "clicks"), str(tmp_path / "views")]
    assert tables_at(str(tmp_path / "views")) == [str(tmp_path / "views")]
    with pytest.raises(CommandFailed, match="There is no Delta table at"):
        tables_at(str(tmp_path / "notes"))
