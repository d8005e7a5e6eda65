from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millstream.lake.bucket_counts import BucketCount
from millstream.lake.columns import file_schema, table_schema
from millstream.lake.data_file import DataFile
from millstream.lake.delta_table import DeltaWriter
from millstream.lake.errors import LoadConflict, TableMismatch
from millstream.lake.hour_files import HourFiles
from millstream.lake.load_batch import LoadBatch, LoadedRange, joined
from millstream.lake.place import open_place

VALUE = pa.struct([("n", pa.int64()), ("inner", pa.struct([("a", pa.string())]))])
COUNT = BucketCount(0, 600_000, 3, 30, 1, (0, 3))


def write_files(address: str, first: int, count: int, value: pa.DataType = VALUE, **columns: Any) -> tuple[DataFile, ...]:
    """Files with rows of offsets from `first` on, as a task writes them."""
    schema = file_schema(value)
    given: dict[str, Any] = {"n": list(range(first, first + count)), "kafka_offset": list(range(first, first + count)), **columns}
    arrays = [pa.array(given.get(field.name, [None] * count), field.type) for field in schema]
    files = HourFiles(open_place(address), schema)
    files.write(pa.RecordBatch.from_arrays(arrays, schema=schema), np.full(count, 500_000))
    return tuple(files.close())


def batch(address: str, batch_id: int, start: int, end: int, **more: Any) -> LoadBatch:
    given: dict[str, Any] = {"query_id": "q", "topic": "clicks", "topic_id": "one"} | more
    files = more.get("files") or write_files(address, start, end - start)
    return LoadBatch(**{**given, "batch_id": batch_id, "ranges": (LoadedRange(0, start, end),), "counts": (COUNT,), "files": files})


def numbers(address: str) -> list[int]:
    found: list[int] = DeltaTable(address).to_pyarrow_table()["n"].to_pylist()
    return sorted(found)


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "clicks")


def test_a_micro_batch_that_comes_again_is_left_out(address: str) -> None:
    writer = DeltaWriter(address)
    assert writer.commit(batch(address, 0, 0, 3), file_schema(VALUE))
    assert writer.commit(batch(address, 1, 3, 5), file_schema(VALUE))
    assert not writer.commit(batch(address, 1, 3, 5), file_schema(VALUE))
    assert not writer.commit(batch(address, 0, 0, 3), file_schema(VALUE))
    assert numbers(address) == [0, 1, 2, 3, 4]


def test_a_checkpoint_that_was_set_back_is_refused_at_once(address: str) -> None:
    """It gives an old number to what came since, which would be left out as a repetition."""
    writer = DeltaWriter(address)
    writer.commit(batch(address, 0, 0, 3), file_schema(VALUE))
    writer.commit(batch(address, 1, 3, 5), file_schema(VALUE))
    with pytest.raises(LoadConflict, match=r"and not the offsets 3 to 7 of clicks-0: the checkpoint was set back"):
        writer.commit(batch(address, 1, 3, 7), file_schema(VALUE))
    assert numbers(address) == [0, 1, 2, 3, 4]


def test_offsets_that_do_not_continue_the_table_are_refused(address: str) -> None:
    writer = DeltaWriter(address)
    writer.commit(batch(address, 0, 0, 3), file_schema(VALUE))
    with pytest.raises(LoadConflict, match="has them already"):
        writer.commit(batch(address, 0, 0, 3, query_id="another"), file_schema(VALUE))
    with pytest.raises(LoadConflict, match="ends at offset 3, so those between would be missing"):
        writer.commit(batch(address, 1, 4, 6), file_schema(VALUE))
    assert numbers(address) == [0, 1, 2]
    assert writer.positions("clicks", [0, 1]) == {0: 3}


def test_another_query_goes_on_where_the_table_ends(address: str) -> None:
    writer = DeltaWriter(address)
    writer.commit(batch(address, 7, 0, 3), file_schema(VALUE))
    assert writer.commit(batch(address, 0, 3, 4, query_id="another"), file_schema(VALUE))


def test_two_loads_at_once_do_not_both_commit(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, other = DeltaWriter(address), DeltaWriter(address)
    writer.commit(batch(address, 0, 0, 3), file_schema(VALUE))
    late = batch(address, 1, 3, 5)
    prepared = writer._prepared(late, file_schema(VALUE))
    other.commit(batch(address, 0, 3, 5, query_id="another"), file_schema(VALUE))
    monkeypatch.setattr(writer, "_prepared", lambda *_: prepared)
    with pytest.raises(LoadConflict, match="another load at the same moment"):
        writer.commit(late, file_schema(VALUE))
    assert numbers(address) == [0, 1, 2, 3, 4]


def test_a_load_that_finds_the_table_made_meanwhile_by_another_one_is_refused_in_these_words(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both begin with an empty place: the second looks before the first has made the table, and makes it afterwards."""
    writer, present = DeltaWriter(address), DeltaWriter._open
    monkeypatch.setattr(DeltaWriter, "_open", lambda asked: None if asked is writer else present(asked))
    assert DeltaWriter(address).commit(batch(address, 0, 0, 3), file_schema(VALUE))
    with pytest.raises(LoadConflict, match="Another load has written to it"):
        writer.commit(batch(address, 0, 0, 3, query_id="other"), file_schema(VALUE))
    assert numbers(address) == [0, 1, 2]


def test_a_topic_that_was_made_anew_is_refused(address: str) -> None:
    writer = DeltaWriter(address)
    writer.commit(batch(address, 0, 0, 3), file_schema(VALUE))
    with pytest.raises(LoadConflict, match="deleted and created again"):
        writer.commit(batch(address, 1, 3, 5, topic_id="two"), file_schema(VALUE))
    # Where brokers have no ids nothing can be said.
    assert writer.commit(batch(address, 1, 3, 5, topic_id=None), file_schema(VALUE))


def test_a_partition_that_the_table_has_nothing_of_does_not_let_another_topic_in(address: str) -> None:
    """It would also make the next micro-batch, of a partition that the table has, one of the same topic, at a wrong offset."""
    writer = DeltaWriter(address)
    writer.commit(batch(address, 0, 0, 3), file_schema(VALUE))
    for other in ({"topic_id": "two"}, {"topic": "views", "topic_id": "three"}):
        elsewhere = replace(batch(address, 0, 0, 2, query_id="another", **other), ranges=(LoadedRange(1, 0, 2),))
        with pytest.raises(LoadConflict, match=f"the topic {elsewhere.topic} is not the one that the table"):
            writer.commit(elsewhere, file_schema(VALUE))
    assert writer.commit(replace(batch(address, 1, 0, 2), ranges=(LoadedRange(1, 0, 2),)), file_schema(VALUE))


def test_new_columns_are_added_inside_of_others_too(address: str) -> None:
    writer = DeltaWriter(address)
    writer.commit(batch(address, 0, 0, 1), file_schema(VALUE))
    wider = pa.struct([("n", pa.int64()), ("inner", pa.struct([("a", pa.string()), ("b", pa.int64())])), ("late", pa.bool_())])
    files = write_files(address, 1, 1, wider, inner=[{"a": "x", "b": 5}], late=[True])
    writer.commit(batch(address, 1, 1, 2, files=files), file_schema(wider))
    # One that was planned before the change.
    writer.commit(batch(address, 2, 2, 3), file_schema(VALUE))
    found = sorted(DeltaTable(address).to_pyarrow_table(columns=["n", "inner", "late"]).to_pylist(), key=lambda row: int(row["n"]))
    assert found == [
        {"n": 0, "inner": None, "late": None},
        {"n": 1, "inner": {"a": "x", "b": 5}, "late": True},
        {"n": 2, "inner": None, "late": None},
    ]


def test_a_column_of_another_type_is_refused_before_anything_is_committed(address: str) -> None:
    writer = DeltaWriter(address)
    writer.commit(batch(address, 0, 0, 1), file_schema(VALUE))
    for kind in (pa.struct([("n", pa.float64())]), pa.struct([("n", pa.int64()), ("inner", pa.struct([("a", pa.int64())]))])):
        with pytest.raises(TableMismatch, match=r"the column (n|inner\.a) of the table .* A table cannot change the type"):
            writer.check(file_schema(kind))
        with pytest.raises(TableMismatch):
            writer.commit(batch(address, 1, 1, 2), file_schema(kind))
    assert DeltaTable(address).version() == 1


def test_what_is_no_table_of_loads_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "other"), pa.table({"n": [1]}))
    with pytest.raises(TableMismatch, match="is partitioned by nothing"):
        DeltaWriter(str(tmp_path / "other")).check(file_schema(VALUE))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("hello")
    with pytest.raises(TableMismatch, match="is no Delta table"):
        DeltaWriter(str(tmp_path / "mine")).check(file_schema(VALUE))
    (tmp_path / "file").write_text("hello")
    with pytest.raises(TableMismatch, match="cannot be opened as a Delta table"):
        DeltaWriter(str(tmp_path / "file")).check(file_schema(VALUE))


def test_a_table_that_demands_what_a_load_does_not_check_is_refused(tmp_path: Path) -> None:
    """Delta looks into no file: nulls, and rows that break a constraint, would go in."""
    columns = table_schema(file_schema(VALUE))

    def table_of(name: str, fields: list[pa.Field]) -> DeltaTable:
        return DeltaTable.create(str(tmp_path / name), pa.schema(fields), partition_by=["event_date", "event_hour"])

    table_of("required", [field.with_nullable(field.name != "n") for field in columns])
    table_of("constrained", list(columns)).alter.add_constraint({"positive": "n > 0"})
    table_of("case", [field.with_name("N") if field.name == "n" else field for field in columns])
    for name, problem in (
        ("required", "wants a value in n,"),
        ("constrained", r"has constraints \(positive\)"),
        ("case", "a column N, and"),
    ):
        with pytest.raises(TableMismatch, match=problem):
            DeltaWriter(str(tmp_path / name)).check(file_schema(VALUE))


def test_files_of_an_attempt_that_was_killed_before_the_table_was_made_do_no_harm(address: str) -> None:
    write_files(address, 0, 3)
    assert DeltaWriter(address).commit(batch(address, 0, 0, 3), file_schema(VALUE))
    assert numbers(address) == [0, 1, 2]


def test_counts_and_offsets_are_kept_with_the_commit(address: str) -> None:
    writer = DeltaWriter(address)
    for number in range(3):
        writer.commit(batch(address, number, number, number + 1), file_schema(VALUE))
    kept = writer.batches("q", after=0)
    expected = [replace(batch(address, number, number, number + 1), files=(), topic_id=None) for number in (1, 2)]
    assert kept == expected
    assert writer.batches("another", after=-1) == []
    assert DeltaWriter(address + "-none").batches("q", after=-1) == []


def test_a_micro_batch_without_rows_is_a_commit_too(address: str) -> None:
    empty = replace(batch(address, 0, 0, 3), files=())
    assert DeltaWriter(address).commit(empty, file_schema(VALUE))
    assert numbers(address) == []
    assert DeltaWriter(address).positions("clicks", [0]) == {0: 3}


def test_parts_of_a_partition_are_joined() -> None:
    assert joined([LoadedRange(1, 5, 9), LoadedRange(0, 0, 2), LoadedRange(1, 2, 5)]) == (LoadedRange(0, 0, 2), LoadedRange(1, 2, 9))


def test_records_in_lists_may_have_their_fields_in_another_order_and_get_new_ones(address: str) -> None:
    def value(*names: str) -> pa.DataType:
        return pa.struct([("n", pa.int64()), ("l", pa.list_(pa.struct([(name, pa.int64()) for name in names])))])

    writer = DeltaWriter(address)
    for number, names in enumerate((("a", "b"), ("b", "a"), ("a", "c"))):
        files = write_files(address, number, 1, value(*names), l=[[dict.fromkeys(names, number)]])
        writer.commit(batch(address, number, number, number + 1, files=files), file_schema(value(*names)))
    expected = [[{"a": 0, "b": 0, "c": None}], [{"a": 1, "b": 1, "c": None}], [{"a": 2, "b": None, "c": 2}]]
    assert pl.read_delta(address).sort("n")["l"].to_list() == expected
    DeltaTable(address).optimize.compact()
    assert DeltaTable(address).to_pyarrow_table().sort_by("n")["l"].to_pylist() == expected


def test_records_in_maps_get_no_fields(address: str) -> None:
    def value(*names: str) -> pa.DataType:
        return pa.struct([("n", pa.int64()), ("m", pa.map_(pa.string(), pa.struct([(name, pa.int64()) for name in names])))])

    writer = DeltaWriter(address)
    writer.commit(batch(address, 0, 0, 1, files=write_files(address, 0, 1, value("a"))), file_schema(value("a")))
    with pytest.raises(TableMismatch, match=r"the column m of the table .* records in a map get no field: load to another place"):
        writer.check(file_schema(value("a", "b")))
