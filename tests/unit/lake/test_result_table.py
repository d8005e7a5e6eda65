from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from millstream.lake.errors import TableMismatch
from millstream.lake.result_table import ResultTable

ROWS = pa.table({"page": ["/a", "/b"], "views": [3, 4]})


def views(table: ResultTable) -> list[int]:
    return sorted(DeltaTable(table.address).to_pyarrow_table()["views"].to_pylist())


def test_a_micro_batch_is_appended_once(tmp_path: Path) -> None:
    table = ResultTable(str(tmp_path / "results"))
    assert not table.has("query", 0)
    assert table.append(ROWS, "query", 0)
    assert not table.append(ROWS, "query", 0)
    assert table.append(ROWS, "query", 3)
    assert table.has("query", 2)
    assert not table.has("query", 4)
    assert views(table) == [3, 3, 4, 4]


def test_another_query_has_micro_batches_of_its_own(tmp_path: Path) -> None:
    table = ResultTable(str(tmp_path / "results"))
    assert table.append(ROWS, "query", 5)
    assert table.append(ROWS, "replay", 0)
    assert views(table) == [3, 3, 4, 4]


def test_a_table_with_other_columns_takes_nothing(tmp_path: Path) -> None:
    table = ResultTable(str(tmp_path / "results"))
    table.append(ROWS, "query", 0)
    with pytest.raises(TableMismatch, match="has other columns than these results, page, users"):
        table.append(pa.table({"page": ["/a"], "users": [1]}), "query", 1)
    assert views(table) == [3, 4]


@pytest.mark.parametrize("is_file", [True, False])
def test_what_is_no_table_is_not_written_to(tmp_path: Path, is_file: bool) -> None:
    place = tmp_path / "results"
    if is_file:
        place.write_text("a file")
    else:
        place.mkdir()
        (place / "other.csv").write_text("a,b")
    with pytest.raises(TableMismatch, match=r"is there and is no Delta table|cannot be opened as a Delta table"):
        ResultTable(str(place)).check_names([])


def test_a_table_of_other_columns_is_found_out_before_anything_is_written(tmp_path: Path) -> None:
    table = ResultTable(str(tmp_path / "results"))
    table.check(ROWS.schema)
    table.refuse_rows()
    table.append(ROWS, "query", 0)
    table.check(ROWS.schema)
    with pytest.raises(TableMismatch, match="has page, views, and the results have page, users: give the job a table of its own"):
        table.check_names(["page", "users"])
    with pytest.raises(TableMismatch, match="has views as long, and the results have it as double"):
        table.check(pa.schema([("page", pa.string()), ("views", pa.float64())]))
    with pytest.raises(TableMismatch, match="has rows already, and the checkpoint of this job is new"):
        table.refuse_rows()


def test_whether_a_column_may_be_null_is_no_difference(tmp_path: Path) -> None:
    table = ResultTable(str(tmp_path / "results"))
    table.append(ROWS, "query", 0)
    table.check(pa.schema([pa.field("page", pa.string(), nullable=False), pa.field("views", pa.int64(), nullable=False)]))
