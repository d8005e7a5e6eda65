from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from millstream.errors import UsageError
from millstream.lake.columns import file_schema
from millstream.lake.delta_table import DeltaWriter
from millstream.lake.errors import LoadConflict, TableMismatch
from millstream.lake.iceberg_catalog import open_catalog
from millstream.lake.iceberg_table import IcebergWriter
from millstream.lake.load_batch import LoadedRange
from tests.unit.lake.test_delta_table import VALUE, batch, write_files

FILES = file_schema(VALUE)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def writer(lake: str) -> IcebergWriter:
    return IcebergWriter(lake, "clicks", catalog={})


def table_at(lake: str) -> Table:
    return open_catalog(lake, {}).load_table(("lake", "clicks"))


def numbers(lake: str) -> list[int]:
    found: list[int] = table_at(lake).scan().to_arrow()["n"].to_pylist()
    return sorted(found)


def test_a_micro_batch_that_comes_again_is_left_out(lake: str, writer: IcebergWriter) -> None:
    assert writer.commit(batch(writer.address, 0, 0, 3), FILES)
    assert writer.commit(batch(writer.address, 1, 3, 5), FILES)
    assert not writer.commit(batch(writer.address, 1, 3, 5), FILES)
    assert not writer.commit(batch(writer.address, 0, 0, 3), FILES)
    with pytest.raises(LoadConflict, match="the checkpoint was set back"):
        writer.commit(batch(writer.address, 1, 3, 7), FILES)
    assert numbers(lake) == [0, 1, 2, 3, 4]
    assert writer.positions("clicks", [0, 1]) == {0: 5}
    assert [(one.batch_id, one.ranges) for one in writer.batches("q", after=0)] == [(1, ((0, 3, 5),))]


def test_of_loads_that_begin_at_the_same_moment_one_commits_and_the_other_is_told(tmp_path: Path) -> None:
    """Also the catalog is made by both."""
    for number in range(10):
        lake, together = str(tmp_path / str(number)), Barrier(2)
        refused: list[str] = []

        def commit(name: str, lake: str = lake, together: Barrier = together, refused: list[str] = refused) -> None:
            writer = IcebergWriter(lake, "clicks", catalog={})
            mine = batch(writer.address, 0, 0, 3, query_id=name)
            together.wait(30)
            try:
                writer.commit(mine, FILES)
            except LoadConflict as error:
                refused.append(str(error))

        loads = [Thread(target=commit, args=(name,)) for name in ("one", "two")]
        for load in loads:
            load.start()
        for load in loads:
            load.join(60)
        assert len(refused) == 1
        assert "Another load has written to it" in refused[0]
        assert numbers(lake) == [0, 1, 2]


def test_a_micro_batch_without_rows_moves_the_table_on(lake: str, writer: IcebergWriter) -> None:
    assert writer.commit(replace(batch(writer.address, 0, 0, 3), files=()), FILES)
    assert writer.commit(batch(writer.address, 1, 3, 5), FILES)
    assert numbers(lake) == [3, 4]


def test_what_does_not_continue_the_table_is_refused(lake: str, writer: IcebergWriter) -> None:
    writer.commit(batch(writer.address, 0, 0, 3), FILES)
    for other, problem in (
        ({"start": 1}, "which has them already"),
        ({"start": 4}, "ends at offset 3, so those between would be missing"),
        ({"start": 3, "topic_id": "two"}, "deleted and created again"),
    ):
        given: dict[str, Any] = {"query_id": "other"} | other
        with pytest.raises(LoadConflict, match=problem):
            writer.commit(batch(writer.address, 0, end=6, **given), FILES)
    # Also where it begins with a partition that the table has nothing of.
    elsewhere = replace(batch(writer.address, 0, 0, 2, query_id="other", topic_id="two"), ranges=(LoadedRange(1, 0, 2),))
    with pytest.raises(LoadConflict, match="is not the one that the table"):
        writer.commit(elsewhere, FILES)
    assert numbers(lake) == [0, 1, 2]


def test_a_driver_that_was_given_up_cannot_commit_after_another(lake: str, writer: IcebergWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has looked at the table, and another run of the same load commits the same micro-batch, or one of another checkpoint the same
    offsets, before it goes on."""
    writer.commit(batch(writer.address, 0, 0, 3), FILES)
    mine = SqlCatalog.commit_table
    for query_id, outcome in (("q", False), ("another", None)):
        ready = [True]

        def overtaken(self: SqlCatalog, *arguments: Any, query_id: str = query_id, ready: list[bool] = ready) -> Any:
            if ready:
                ready.clear()
                number = len(numbers(lake))
                other = batch(writer.address, number, number, number + 2, query_id=query_id)
                assert IcebergWriter(lake, "clicks", catalog={}).commit(other, FILES)
            return mine(self, *arguments)

        before = len(numbers(lake))
        late = batch(writer.address, before, before, before + 2)
        monkeypatch.setattr(SqlCatalog, "commit_table", overtaken)
        if outcome is None:
            with pytest.raises(LoadConflict, match="which has them already"):
                writer.commit(late, FILES)
        else:
            assert writer.commit(late, FILES) is outcome
        monkeypatch.setattr(SqlCatalog, "commit_table", mine)
        assert numbers(lake) == list(range(before + 2))


def test_a_load_that_finds_the_table_made_meanwhile_by_another_one_looks_at_it(
    lake: str, writer: IcebergWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    present, looks = IcebergWriter._open, iter([None])
    monkeypatch.setattr(IcebergWriter, "_open", lambda asked: next(looks, present(asked)) if asked is writer else present(asked))
    assert IcebergWriter(lake, "clicks", catalog={}).commit(batch(writer.address, 0, 0, 3), FILES)
    with pytest.raises(LoadConflict, match="Another load has written to it"):
        writer.commit(batch(writer.address, 0, 0, 3, query_id="other"), FILES)
    assert numbers(lake) == [0, 1, 2]


def test_new_columns_come_and_narrow_ones_are_widened(lake: str, writer: IcebergWriter) -> None:
    narrow = pa.schema([pa.field("n", pa.int32()), *[field for field in FILES if field.name != "n"]])
    writer.check(narrow)
    writer.commit(replace(batch(writer.address, 0, 0, 1), files=()), narrow)
    assert str(table_at(lake).schema().find_type("n")) == "int"
    value = pa.struct([("n", pa.int64()), ("inner", pa.struct([("a", pa.string()), ("b", pa.int64())])), ("new", pa.float64())])
    wide = file_schema(value)
    files = write_files(writer.address, 1, 2, value, new=[0.5, None], inner=[{"a": "x", "b": 7}, None])
    writer.check(wide)
    writer.commit(batch(writer.address, 1, 1, 3, files=files), wide)
    # A driver that does not know the new columns yet.
    writer.commit(batch(writer.address, 2, 3, 4), FILES)
    assert str(table_at(lake).schema().find_type("n")) == "long"
    found = sorted(table_at(lake).scan().to_arrow().select(["n", "inner", "new"]).to_pylist(), key=lambda row: row["n"])
    assert found == [
        {"n": 1, "inner": {"a": "x", "b": 7}, "new": 0.5}, {"n": 2, "inner": None, "new": None}, {"n": 3, "inner": None, "new": None}
    ]  # fmt: skip


def test_what_cannot_go_into_the_table_is_refused(lake: str, writer: IcebergWriter) -> None:
    writer.commit(batch(writer.address, 0, 0, 3), FILES)
    text = file_schema(pa.struct([("n", pa.string())]))
    for change in (lambda: writer.check(text), lambda: writer.commit(batch(writer.address, 1, 3, 4), text)):
        with pytest.raises(TableMismatch, match="another type in a column"):
            change()
    with pytest.raises(TableMismatch, match=r"partitioned by hour\(kafka_timestamp\), and a load writes files by hour\(event_timestamp\)"):
        writer.check(file_schema(VALUE, with_event_time=True))
    delta = IcebergWriter(lake, "views", catalog={})
    DeltaWriter(delta.address).commit(batch(delta.address, 0, 0, 1), FILES)
    with pytest.raises(TableMismatch, match="is a Delta table"):
        delta.check(FILES)


def test_a_table_that_others_let_retry_is_taught_not_to(lake: str, writer: IcebergWriter) -> None:
    writer.commit(batch(writer.address, 0, 0, 3), FILES)
    with table_at(lake).transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "4"})
    writer.commit(batch(writer.address, 1, 3, 5), FILES)
    assert table_at(lake).properties["commit.retry.num-retries"] == "0"


def test_a_catalog_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need a catalog that every driver reaches"):
        open_catalog("s3://bucket/lake", {})
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be a directory to write to: File exists"):
        open_catalog(str(tmp_path / "file"), {})
    with pytest.raises(UsageError, match="cannot be opened"):
        open_catalog(str(tmp_path), {"type": "nonsense"})
