import pyarrow as pa
import pytest

from millstream.lake.columns import file_schema, flattened, table_schema, widened
from millstream.lake.errors import BadColumns


def test_a_record_becomes_its_fields_and_where_it_comes_from() -> None:
    schema = table_schema(file_schema(pa.struct([("page", pa.string()), ("nothing", pa.null())]), key=pa.string()))
    assert schema.names == ["page", "kafka_key", "kafka_partition", "kafka_offset", "kafka_timestamp", "event_date", "event_hour"]
    assert schema.field("kafka_key").type == pa.string()


def test_what_is_no_record_is_one_column() -> None:
    assert file_schema(pa.binary()).names[0] == "value"


@pytest.mark.parametrize("names", [["Page", "page"], ["kafka_offset"], ["EVENT_DATE"]])
def test_two_columns_of_one_name_are_refused(names: list[str]) -> None:
    with pytest.raises(BadColumns, match=f"two columns {names[-1]}"):
        file_schema(pa.struct([(name, pa.string()) for name in names]))


def test_a_type_that_tables_do_not_have_is_refused() -> None:
    with pytest.raises(BadColumns, match=r"a\.b would be of type null"):
        file_schema(pa.struct([("a", pa.struct([("b", pa.null())]))]))


def test_a_record_without_fields_is_refused() -> None:
    """Parquet has none, and says so when files are written."""
    with pytest.raises(BadColumns, match=r"a\.b would be a record without fields"):
        file_schema(pa.struct([("a", pa.struct([("b", pa.struct([]))]))]))


def test_a_null_value_has_nulls_in_all_columns() -> None:
    values = pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())]))
    assert [column.to_pylist() for column in flattened(values)] == [[1, None], ["x", None]]


def test_types_are_widened_inside_of_others() -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float32())), ("c", pa.map_(pa.string(), pa.int16()))])
    assert widened(kind) == pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64())), ("c", pa.map_(pa.string(), pa.int64()))])
