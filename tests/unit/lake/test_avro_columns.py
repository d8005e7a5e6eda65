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


def test_a_field_that_could_be_null_in_a_former_version_still_can() -> None:
    """With a default, too: messages of that version with a null would otherwise be unreadable."""
    versions = [record(field("a", ["null", "string"])), record(field("a", "string", default="none"))]
    text = json.loads(reading_schema([parse_avro([json.dumps(version)]) for version in versions]))
    assert text["fields"] == [{"name": "a", "type": ["string", "null"], "default": "none"}]


def test_what_is_no_record_is_widened_too() -> None:
    assert arrow_type(parse_avro([reading_schema([parse_avro(['"int"'])])])) == pa.int64()


def inner(*fields: Any, name: str = "inner") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def test_records_inside_of_others_keep_the_fields_of_former_versions_too() -> None:
    first = record(field("d", inner(field("a", "int"), field("gone", "string"))))
    second = record(field("d", inner(field("a", "long"), field("new", "boolean", default=False))))
    third = record(field("d", ["null", inner(field("a", "long"))], default=None))
    expected = {"d": pa.struct([("a", pa.int64()), ("new", pa.bool_()), ("gone", pa.string())])}
    assert columns(first, second, third) == expected
    assert columns(first, second) == expected


def test_records_in_lists_and_maps_keep_their_fields_and_one_of_two_places_is_enough() -> None:
    first = record(field("l", {"type": "array", "items": inner(field("a", "int"))}), field("m", {"type": "map", "values": "site.inner"}))
    second = record(field("l", {"type": "array", "items": inner(field("b", "int"))}))
    kind = pa.struct([("b", pa.int64()), ("a", pa.int64())])
    assert columns(first, second) == {"l": pa.list_(kind), "m": pa.map_(pa.string(), kind)}


def test_a_message_may_change_its_name_and_a_former_field_may_be_of_a_type_that_changed() -> None:
    first = record(field("d", inner(field("a", "int"))), field("e", {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}))
    second = record(field("x", inner(field("b", "int")))) | {"name": "visit"}
    kind = pa.struct([("b", pa.int64()), ("a", pa.int64())])
    assert columns(first, second) == {"x": kind, "d": kind, "e": pa.string()}


def test_an_enum_has_the_symbols_of_all_versions() -> None:
    versions = [
        record(field("e", {"type": "enum", "name": "colour", "symbols": symbols})) for symbols in (["RED", "BLUE"], ["RED", "GREEN"])
    ]
    text = json.loads(reading_schema([parse_avro([json.dumps(version)]) for version in versions]))
    assert text["fields"][0]["type"][1]["symbols"] == ["RED", "GREEN", "BLUE"]
