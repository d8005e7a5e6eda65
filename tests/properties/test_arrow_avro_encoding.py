"""What the sink writes as Avro is what fastavro reads by the same schema: every type, nulls everywhere, slices, nesting."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.arrow.avro.encoding import AvroMismatch, encode_avro
from millstream.arrow.avro.writer_schema import read_schema
from tests.properties.arrow_values import as_arrow

INTS = st.integers(-(2**31), 2**31 - 1)
SUITS = ["CLUBS", "HEARTS", "SPADES"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECONDS = st.integers(-(10**12), 10**12)
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001 - given a zone where one belongs


def logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


# Schema of Avro, type of Arrow, values.
SIMPLE: list[tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = [
    ("boolean", pa.bool_(), st.booleans()),
    ("int", pa.int32(), INTS),
    ("int", pa.int8(), st.integers(-128, 127)),
    ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ("long", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    ("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    ("double", pa.float64(), st.floats(allow_nan=False)),
    ("double", pa.int32(), INTS),
    ("string", pa.string(), st.text(max_size=20) | st.just("x" * 300)),
    ("string", pa.large_string(), st.text(max_size=20)),
    ("bytes", pa.binary(), st.binary(max_size=20)),
    ("bytes", pa.large_binary(), st.binary(max_size=20)),
    ({"type": "fixed", "name": "four", "size": 4}, pa.binary(), st.binary(min_size=4, max_size=4)),
    ({"type": "enum", "name": "suit", "symbols": SUITS}, pa.string(), st.sampled_from(SUITS)),
    (logical("int", "date"), pa.date32(), st.dates(date(1900, 1, 1), date(2200, 1, 1))),
    (logical("long", "timestamp-micros"), pa.timestamp("us", tz="UTC"), TIMES.map(lambda moment: moment.replace(tzinfo=UTC))),
    (
        logical("long", "timestamp-millis"),
        pa.timestamp("us", tz="UTC"),
        MILLISECONDS.map(lambda number: EPOCH + timedelta(milliseconds=number)),
    ),
    (logical("long", "local-timestamp-micros"), pa.timestamp("us"), TIMES),
    (logical("long", "time-micros"), pa.time64("us"), st.times()),
    (logical("int", "time-millis"), pa.time64("us"), MILLISECONDS.map(lambda number: (EPOCH + timedelta(milliseconds=number)).time())),
    (logical("bytes", "decimal", precision=20, scale=3), pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    (
        logical("fixed", "decimal", name="money", size=9, precision=20, scale=2),
        pa.decimal128(10, 2),
        st.decimals(-(10**7), 10**7, places=2),
    ),
]


@st.composite
def fields(draw: st.DrawFn, depth: int = 0) -> tuple[Any, pa.DataType, st.SearchStrategy[Any]]:
    """A schema, the type of its column, and a strategy for values."""
    kinds = ["simple", "simple", "nullable", "array", "map", "record"] if depth < 3 else ["simple"]
    kind = draw(st.sampled_from(kinds))
    if kind == "simple":
        chosen: tuple[Any, pa.DataType, st.SearchStrategy[Any]] = draw(st.sampled_from(SIMPLE))
        return chosen
    if kind == "record":
        inner = draw(st.lists(fields(depth=depth + 1), min_size=1, max_size=3))
        names = [f"f{index}" for index in range(len(inner))]
        schema = {
            "type": "record",
            "name": "r",
            "fields": [{"name": name, "type": entry[0]} for name, entry in zip(names, inner, strict=True)],
        }
        arrow = pa.struct([pa.field(name, entry[1]) for name, entry in zip(names, inner, strict=True)])
        return schema, arrow, st.fixed_dictionaries({name: entry[2] for name, entry in zip(names, inner, strict=True)})
    schema, arrow, values = draw(fields(depth=depth + 1))
    if kind == "array":
        return {"type": "array", "items": schema}, pa.list_(arrow), st.lists(values, max_size=3)
    if kind == "map":
        pairs = st.dictionaries(st.text(max_size=5), values, max_size=3)
        return {"type": "map", "values": schema}, pa.map_(pa.string(), arrow), pairs
    if isinstance(schema, list):
        return schema, arrow, values
    union = [schema, "null"] if draw(st.booleans()) else ["null", schema]
    return union, arrow, st.none() | values


def unique_names(schema: Any, counter: list[int]) -> Any:
    """The schema with a name of its own for each record, enum and fixed."""
    if isinstance(schema, list):
        return [unique_names(branch, counter) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    counter[0] += 1
    number = counter[0]
    renamed = {key: unique_names(value, counter) if key in {"type", "items", "values"} else value for key, value in schema.items()}
    if "fields" in schema:
        renamed["fields"] = [field | {"type": unique_names(field["type"], counter)} for field in schema["fields"]]
    return renamed | {"name": f"{schema['name']}{number}"} if "name" in schema else renamed


def read(schema: Any, message: bytes) -> Any:
    out = BytesIO(message)
    value = fastavro.schemaless_reader(out, schema, None)
    assert out.read() == b""
    return value


@settings(max_examples=150)
@given(field=fields(), data=st.data())
def test_fastavro_reads_what_columns_became(field: tuple[Any, pa.DataType, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    schema = unique_names(field[0], [0])
    rows = data.draw(st.lists(field[2], max_size=8))
    column = pa.array([as_arrow(row, field[1]) for row in [*rows[:1], *rows]], type=field[1])[len(rows[:1]) :]
    encoded = encode_avro(read_schema(json.dumps(schema), where="test"), column, place="value")
    messages = [bytes(encoded.data[start:end]) for start, end in zip(encoded.starts, encoded.ends, strict=True)]
    written = [message for message, row in zip(messages, rows, strict=True) if row is not None]
    assert [read(schema, message) for message in written] == [row for row in rows if row is not None]


def encode(schema: Any, column: pa.Array) -> list[Any]:
    encoded = encode_avro(read_schema(json.dumps(schema), where="test"), column, place="value")
    return [read(schema, bytes(encoded.data[start:end])) for start, end in zip(encoded.starts, encoded.ends, strict=True)]


PERSON = {
    "type": "record",
    "name": "person",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": "int", "default": 18},
        {"name": "nick", "type": ["string", "null"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["new"]},
    ],
}


def test_a_field_without_a_column_is_its_default_or_null() -> None:
    column = pa.array([{"name": "ann"}, {"name": "bob"}])
    assert encode(PERSON, column) == [{"name": name, "age": 18, "nick": None, "tags": ["new"]} for name in ("ann", "bob")]


@pytest.mark.parametrize("branches", [63, 64, 65, 8191, 8192])
def test_a_union_may_have_any_number_of_branches(branches: int) -> None:
    """The number of a branch is written as any other: from 64 on it takes more than a byte."""
    others = [{"type": "fixed", "name": f"f{number}", "size": 1} for number in range(branches - 1)]
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": [*others, "string", "null"]}]}
    assert encode(schema, pa.array([{"x": "text"}, {"x": None}])) == [{"x": "text"}, {"x": None}]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (
            pa.array([{"age": 3}], type=pa.struct([("age", pa.int32())])),
            "value.name: there is no such column, and the schema has no default",
        ),
        (pa.array([{"name": "a", "x": 1}]), "value: the schema has no field 'x', it has name, age, nick, tags"),
        (pa.array([{"name": None}], type=pa.struct([("name", pa.string())])), "value.name: there is a null"),
        (pa.array([{"name": "a", "age": "3"}]), "value.age: a column of type string cannot be written as int: cast it in Spark"),
        (pa.array([{"name": b"a"}]), "value.name: a column of type binary cannot be written as string"),
        (pa.array([{"name": "a", "age": 2**40}]), "value.age: a column of type int64 cannot be written as int"),
        (pa.array([{"name": "a", "tags": ["x", None]}]), r"value.tags\[\]: there is a null"),
        (pa.array(["a"]), "value: a column of type string cannot be written as record"),
    ],
)
def test_what_does_not_fit_is_reported_with_its_place(column: pa.Array, expected: str) -> None:
    with pytest.raises(AvroMismatch, match=expected):
        encode(PERSON, column)


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        ({"type": "fixed", "name": "f", "size": 4}, pa.array([b"123"]), "3 bytes where the schema wants 4"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["A", "B"]), "'B' is none of the symbols A"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            pa.array([Decimal("12345.6")]),
            r"does not fit decimal\(4, 1\)",
        ),
        (
            {"type": "fixed", "name": "d", "size": 1, "logicalType": "decimal", "precision": 2, "scale": 0},
            pa.array([Decimal(99), Decimal(-99)]),
            None,
        ),
        (["null", "int"], pa.array(["a"]), "cannot be written as int"),
        (["int", "boolean"], pa.array(["a"]), "no branch of the union takes a column of type string"),
        ("null", pa.array([1]), "cannot be written as null"),
    ],
)
def test_values_that_do_not_fit(schema: Any, column: pa.Array, expected: str | None) -> None:
    if expected is None:
        assert encode(schema, column) == column.to_pylist()
        return
    with pytest.raises(AvroMismatch, match=expected):
        encode(schema, column)


def test_an_absent_struct_hides_the_nulls_inside_it() -> None:
    schema = {"type": "record", "name": "outer", "fields": [{"name": "who", "type": ["null", PERSON]}]}
    column = pa.array([{"who": None}, {"who": {"name": "ann"}}], type=pa.struct([("who", pa.struct([("name", pa.string())]))]))
    assert [row["who"] and row["who"]["name"] for row in encode(schema, column)] == [None, "ann"]


def test_what_stands_under_a_null_is_no_number_that_does_not_fit() -> None:
    words = (10**30).to_bytes(16, "little") + (5).to_bytes(16, "little")
    column = pa.Array.from_buffers(pa.decimal128(9, 0), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(words)])
    fixed = {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9}
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", fixed]}]}
    assert encode(schema, pa.StructArray.from_arrays([column], names=["x"])) == [{"x": None}, {"x": 5}]


def test_a_schema_that_contains_itself_is_refused() -> None:
    node = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    with pytest.raises(AvroMismatch):
        encode(node, pa.array([{"next": {"next": None}}]))


def test_text_that_is_no_schema_is_reported() -> None:
    for text in ("{", '"nothing"'):
        with pytest.raises(AvroMismatch, match="subject s: rows cannot be written by this schema: it is not an Avro schema"):
            read_schema(text, where="subject s")


def test_the_bare_name_of_a_primitive_type_is_a_schema_to_write_by_as_it_is_one_to_read_by() -> None:
    assert read_schema(" string", where="test").kind == "string"


def test_times_of_day() -> None:
    assert encode({"type": "long", "logicalType": "time-micros"}, pa.array([time(1, 2, 3, 4)])) == [time(1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (logical("int", "time-millis"), pa.array([1, 86_399_999], type=pa.int32())),
        (logical("long", "time-micros"), pa.array([1, 86_399_999_999])),
        (logical("long", "time-micros"), pa.array([1_000, 86_399_999_999_000], type=pa.time64("ns"))),
        (logical("int", "time-millis"), pa.array([0, 86_399], type=pa.time32("s"))),
    ],
)
def test_times_of_day_are_written_from_the_numbers_they_are_read_as(schema: Any, column: pa.Array) -> None:
    """A column of Spark that was read from `time-millis` is an int: what was read can be written."""
    micros = {"int32": 1000, "int64": 1, "time64[ns]": 0.001, "time32[s]": 1_000_000}[str(column.type)]
    stored = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_pylist()
    expected = [(EPOCH + timedelta(microseconds=round(number * micros))).time() for number in stored]
    assert encode(schema, column) == expected


def test_a_time_of_day_does_not_fit_where_it_would_be_cut() -> None:
    with pytest.raises(AvroMismatch, match="value: a column of type int64 cannot be written as time-millis"):
        encode(logical("int", "time-millis"), pa.array([2**40]))


def test_a_number_too_long_for_spark_is_written_from_the_bytes_it_is_read_as() -> None:
    content = (10**40).to_bytes(17, "big")
    for schema in (logical("bytes", "decimal", precision=50), logical("fixed", "decimal", name="digits", size=17, precision=40)):
        with localcontext(prec=60):
            assert encode(schema, pa.array([content])) == [Decimal(10**40)]


@pytest.mark.parametrize("kind", ["timestamp-nanos", "local-timestamp-nanos"])
@pytest.mark.parametrize("unit", ["us", "ms", "s"])
def test_a_time_that_nanoseconds_cannot_hold_is_reported(kind: str, unit: str) -> None:
    zone = "UTC" if kind.startswith("t") else None
    last = {"us": 9_223_372_036_854_775, "ms": 9_223_372_036_854, "s": 9_223_372_036}[unit]
    schema = read_schema(json.dumps(logical("long", kind)), where="test")
    for fine in (last, -last):
        encode_avro(schema, pa.array([fine], type=pa.timestamp(unit, tz=zone)), place="value")
    for late in (last + 1, -last - 1, 2**63 - 1, -(2**63)):
        with pytest.raises(AvroMismatch, match=f"value, {kind}: a time does not fit 64 bits of nanoseconds, the years 1677 to 2262"):
            encode_avro(schema, pa.array([0, late], type=pa.timestamp(unit, tz=zone)), place="value")


DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("bytes", "\u00ff\u0000a", b"\xff\x00a"),
    ({"type": "fixed", "name": "two", "size": 2}, "\u00ffa", b"\xffa"),
    (logical("bytes", "decimal", precision=5, scale=2), "\u0004\u00d2", Decimal("12.34")),
    (logical("fixed", "decimal", name="cents", size=3, precision=5, scale=2), "\u0000\u0004\u00d2", Decimal("12.34")),
    (["bytes", "null"], "\u0001", b"\x01"),
    (["null", "bytes"], None, None),
    ({"type": "array", "items": "bytes"}, ["\u00fe"], [b"\xfe"]),
    ({"type": "map", "values": ["null", "bytes"]}, {"k": None}, {"k": None}),
    (
        {"type": "record", "name": "inner", "fields": [{"name": "b", "type": "bytes", "default": "x"}, {"name": "n", "type": "int"}]},
        {"n": 3},
        {"b": b"x", "n": 3},
    ),
    ({"type": "enum", "name": "suit", "symbols": SUITS}, "HEARTS", "HEARTS"),
    (logical("int", "date"), 1, date(1970, 1, 2)),
    (logical("long", "timestamp-millis"), 0, EPOCH),
    ("double", 1, 1.0),
    # Since Avro 1.12 the default of a union may belong to any branch: to the one whose value it is.
    (["int", "string"], "5", "5"),
    (["long", "double"], 1.5, 1.5),
    (["boolean", "string"], "no", "no"),
    (["int", "long"], 2**40, 2**40),
]


@pytest.mark.parametrize(("kind", "default", "meant"), DEFAULTS)
def test_every_type_may_have_a_default_for_a_missing_column(kind: Any, default: Any, meant: Any) -> None:
    fields_ = [{"name": "id", "type": "int"}, {"name": "more", "type": kind, "default": default}]
    schema = {"type": "record", "name": "r", "fields": fields_}
    column = pa.array([{"id": 1}, {"id": 2}], type=pa.struct([("id", pa.int32())]))
    assert encode(schema, column) == [{"id": number, "more": meant} for number in (1, 2)]


@pytest.mark.parametrize(
    ("kind", "default", "named"),
    [
        ({"type": "fixed", "name": "two", "size": 2}, "abc", "fixed two"),
        ("int", 2**31, "int"),
        ("long", 2**63, "long"),
        ("double", True, "double"),
    ],
)
def test_a_default_that_is_none_is_reported(kind: Any, default: Any, named: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, {"name": "more", "type": kind, "default": default}]}
    with pytest.raises(AvroMismatch, match=f"value.more: there is no such column, and the default {default!r} is not of the type {named}"):
        encode(schema, pa.array([{"id": 1}], type=pa.struct([("id", pa.int32())])))


def test_a_decimal_without_a_precision_is_the_bytes_that_it_is() -> None:
    column = pa.array([b"abc", b""], type=pa.binary())
    schemas = [read_schema(json.dumps(kind), where="test") for kind in ("bytes", logical("bytes", "decimal"))]
    written = [encode_avro(schema, column, place="value") for schema in schemas]
    assert bytes(written[0].data) == bytes(written[1].data)
