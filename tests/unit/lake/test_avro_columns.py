import json
from typing import Any

import pyarrow as pa

from millstream.arrow.avro.column_types import arrow_type, parse_avro
from millstream.lake.avro_columns import reading_schema


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "view", "namespace": "site", "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def columns(*versions: Any) -> dict[str, pa.DataType]:
    kind = arrow_type(parse_avro([reading_schema([parse_avro([json.dumps(version)]) for version in versions])]))
    return {one.name: one.type for one in kind}


def test_whole_numbers_are_read_as_long_and_fractions_as_double() -> None:
    nested = {"type": "record", "name": "inner", "fields": [field("n", "int")]}
    assert columns(
        record(field("a", "int"), field("b", ["null", "float"]), field("c", {"type": "array", "items": "int"}), field("d", nested))
    ) == {
        "a": pa.int64(),
        "b": pa.float64(),
        "c": pa.list_(pa.int64()),
        "d": pa.struct([("n", pa.int64())]),
    }


def test_a_date_stays_a_date_and_a_time_of_day_a_number() -> None:
    day, time = {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"}
    assert columns(record(field("day", day), field("time", time))) == {"day": pa.date32(), "time": pa.int64()}


def test_a_table_keeps_the_fields_of_former_versions() -> None:
    first = record(field("a", "int"), field("gone", "string"))
    second = record(field("a", "long"), field("new", "boolean", default=False))
    assert columns(first, second) == {"a": pa.int64(), "new": pa.bool_(), "gone": pa.string()}


def test_a_renamed_field_is_one_column() -> None:
    assert columns(record(field("old", "int")), record(field("name", "int", aliases=["old"]))) == {"name": pa.int64()}


def test_a_union_of_int_and_long_is_one_type() -> None:
    assert columns(record(field("a", ["null", "int", "long"]))) == {"a": pa.int64()}


def test_a_field_without_default_may_be_missing() -> None:
    text = json.loads(reading_schema([parse_avro([json.dumps(record(field("a", "string")))])]))
    assert text["fields"] == [{"name": "a", "type": ["null", "string"], "default": None}]


def test_what_is_no_record_is_widened_too() -> None:
    assert arrow_type(parse_avro([reading_schema([parse_avro(['"int"'])])])) == pa.int64()
