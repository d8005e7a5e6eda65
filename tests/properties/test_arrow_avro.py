"""Avro messages in columns are what fastavro reads: any schema, evolved schemas, damaged bytes. Everything ends, nothing reads too far."""

import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import count
from typing import Any, Self

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.arrow.avro.column_types import BadSchema, arrow_type, parse_avro
from millstream.arrow.avro.format import NO_PROGRAM, AvroDecoder

pytestmark = pytest.mark.timeout(300)  # the kernel is compiled by the first test, on a busy machine

Schema = Any
EXACT = Context(prec=50)
FRAME = b"\x00\x00\x00\x00\x01"
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
REAL = st.floats(allow_nan=False, allow_infinity=False)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INT,
    "long": LONG,
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "double": REAL,
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}
MICROS = st.integers(-(10**15), 4 * 10**15).map(lambda number: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=number))
LOGICAL: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.dates(date(1700, 1, 1), date(2300, 1, 1))),
    ({"type": "long", "logicalType": "timestamp-micros"}, MICROS),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        MICROS.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    ),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, st.decimals(-9_999_999, 9_999_999, places=2)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}, st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
]


class Drawn:
    """A schema, and how values of it are drawn."""

    def __init__(self, schema: Schema, values: st.SearchStrategy[Any]) -> None:
        self.schema = schema
        self.values = values


class Reference(str):
    """The name of a type that is defined before."""

    __slots__ = ("definition",)
    definition: Schema

    def __new__(cls, definition: Schema) -> Self:
        reference = super().__new__(cls, definition["name"])
        reference.definition = definition
        return reference


@st.composite
def drawn_types(draw: st.DrawFn, names: Iterator[int], depth: int = 3) -> Drawn:
    kinds = ["primitive", "primitive", "logical", "enum", "fixed", "fixed decimal"]
    kind = draw(st.sampled_from([*kinds, "array", "map", "record", "optional", "union"] if depth else kinds))
    match kind:
        case "primitive":
            name = draw(st.sampled_from(sorted(VALUES)))
            return Drawn(name, VALUES[name])
        case "logical":
            schema, values = draw(st.sampled_from(LOGICAL))
            return Drawn(schema, values)
        case "enum":
            symbols = draw(st.lists(st.sampled_from(["A", "BB", "CCC", "D"]), min_size=1, unique=True))
            return Drawn({"type": "enum", "name": f"n{next(names)}", "symbols": symbols}, st.sampled_from(symbols))
        case "fixed":
            size = draw(st.integers(1, 9))
            return Drawn({"type": "fixed", "name": f"n{next(names)}", "size": size}, st.binary(min_size=size, max_size=size))
        case "fixed decimal":
            size, digits = draw(st.sampled_from([(1, 2), (4, 9), (9, 18), (16, 38), (20, 38)]))
            schema = {"type": "fixed", "name": f"n{next(names)}", "size": size, "logicalType": "decimal", "precision": digits, "scale": 1}
            return Drawn(schema, st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda number: Decimal(number).scaleb(-1, EXACT)))
        case "array":
            inner = draw(drawn_types(names, depth - 1))
            return Drawn({"type": "array", "items": inner.schema}, st.lists(inner.values, max_size=4))
        case "map":
            inner = draw(drawn_types(names, depth - 1))
            return Drawn({"type": "map", "values": inner.schema}, st.dictionaries(st.text(max_size=5), inner.values, max_size=3))
        case "record":
            return draw(drawn_records(names, depth - 1))
        case "optional":
            inner = draw(drawn_types(names, depth - 1).filter(lambda one: one.schema != "null" and not isinstance(one.schema, list)))
            return Drawn(draw(st.permutations(["null", inner.schema])), st.none() | inner.values)
        case _:
            # Kinds that values tell apart by themselves, so that the branch is known; and not both of bytes and string, of which fastavro
            # takes the first when it resolves a union, be it the right one or not.
            text = draw(st.sampled_from(["bytes", "string"]))
            branches = draw(st.lists(st.sampled_from(["null", "boolean", "double", text]), min_size=2, unique=True))
            return Drawn(branches, st.one_of([VALUES[branch] for branch in branches]))


@st.composite
def drawn_records(draw: st.DrawFn, names: Iterator[int], depth: int = 3, *, refers: bool = False) -> Drawn:
    fields = [draw(drawn_types(names, depth)) for _ in range(draw(st.integers(0, 4)))]
    named = [field for field in fields if isinstance(field.schema, dict) and "name" in field.schema]
    fields += [Drawn(Reference(field.schema), field.values) for field in named if refers and draw(st.booleans())]
    schema = {
        "type": "record",
        "name": f"n{next(names)}",
        "fields": [{"name": f"f{number}", "type": field.schema} for number, field in enumerate(fields)],
    }
    return Drawn(schema, st.fixed_dictionaries({f"f{number}": field.values for number, field in enumerate(fields)}))


def encode(schema: Schema, value: Any) -> bytes:
    output = io.BytesIO()
    fastavro.schemaless_writer(output, fastavro.parse_schema(schema), value)
    return output.getvalue()


def read_with_fastavro(content: bytes, writer: Schema, reader: Schema | None = None) -> Any:
    """What fastavro reads; raises if it cannot, or if something is left over."""
    stream = io.BytesIO(content)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(writer), fastavro.parse_schema(reader) if reader else None)
    if stream.tell() != len(content):
        raise ValueError("bytes are left over")
    return value


def read_columns(contents: list[bytes | None], writer: Schema, reader: Schema | None = None) -> tuple[list[Any], list[int]]:
    """What our decoder makes of messages, each with its frame in front, and the status of each."""
    return read_mixed_columns([writer], [(0, content) for content in contents], reader or writer)


def read_mixed_columns(writers: list[Schema], messages: Sequence[tuple[int, bytes | None]], reader: Schema) -> tuple[list[Any], list[int]]:
    """The same of messages of several schemas: each has the number of its writer's."""
    text = json.dumps(reader)
    decoder = AvroDecoder(parse_avro([text]))
    # As in a worker: the parsed schemas of writers are gone when their programs run.
    programs = [decoder.add(parse_avro([json.dumps(writer)])) for writer in writers]
    framed = [b"" if content is None else FRAME + content for _, content in messages]
    offsets = np.zeros(len(framed) + 1, np.int32)
    offsets[1:] = np.cumsum([len(content) for content in framed])
    entries = np.array([NO_PROGRAM if content is None else programs[writer] for writer, content in messages], np.int64)
    # A copy that ends where the messages do: a byte too far would belong to another message.
    data = np.frombuffer(b"".join(framed), np.uint8).copy()
    array, status = decoder.decode(data, offsets, entries, arrow_type(parse_avro([text])))
    array.validate(full=True)
    return array.to_pylist(), status.tolist()


def as_column(schema: Schema, value: Any) -> Any:
    """A value of fastavro's as a row of the column has it."""
    if isinstance(schema, Reference):
        return as_column(schema.definition, value)
    if isinstance(schema, list):
        return as_union(schema, value)
    if value is None or not isinstance(schema, dict):
        return value
    match schema["type"]:
        case "record":
            return {field["name"]: as_column(field["type"], value[field["name"]]) for field in schema["fields"]}
        case "array":
            return [as_column(schema["items"], item) for item in value]
        case "map":
            return sorted((key, as_column(schema["values"], item)) for key, item in value.items())
        case _:
            return value


def as_union(schema: Schema, value: Any) -> Any:
    branches = [branch for branch in schema if branch != "null"]
    if value is None or len(branches) == 1:
        return None if value is None else as_column(branches[0], value)
    kind = {bool: "boolean", float: "double", bytes: "bytes", str: "string"}[type(value)]
    return {f"member{number}": value if branch == kind else None for number, branch in enumerate(branches)}


def in_order(schema: Schema, value: Any) -> Any:
    """Our value with the entries of maps sorted: a map has no order, and one that has a key twice keeps both."""
    if isinstance(schema, Reference):
        return in_order(schema.definition, value)
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        return in_order(branches[0], value) if len(branches) == 1 else value
    if value is None or not isinstance(schema, dict):
        return value
    match schema["type"]:
        case "record":
            return {field["name"]: in_order(field["type"], value[field["name"]]) for field in schema["fields"]}
        case "array":
            return [in_order(schema["items"], item) for item in value]
        case "map":
            return sorted((key, in_order(schema["values"], item)) for key, item in dict(value).items())
        case _:
            return value.astimezone(UTC) if isinstance(value, datetime) else value


records = st.deferred(lambda: drawn_records(count()))
records_that_refer = st.deferred(lambda: drawn_records(count(), refers=True))


@settings(max_examples=150)
@given(st.data())
def test_columns_are_what_fastavro_reads(data: st.DataObject) -> None:
    drawn = data.draw(records_that_refer)
    values = data.draw(st.lists(drawn.values, max_size=5))
    contents: list[bytes | None] = [encode(drawn.schema, value) for value in values]
    rows, status = read_columns([*contents, None], drawn.schema)
    assert status == [0] * len(rows)
    assert rows.pop() is None
    expected = [as_column(drawn.schema, read_with_fastavro(content, drawn.schema)) for content in contents if content is not None]
    assert repr([in_order(drawn.schema, row) for row in rows]) == repr(expected)


@settings(max_examples=200)
@given(st.data())
def test_damaged_messages_are_found_out_and_their_neighbours_are_not_touched(data: st.DataObject) -> None:
    drawn = data.draw(records)
    good = encode(drawn.schema, data.draw(drawn.values))
    damaged = data.draw(
        st.one_of(
            st.binary(max_size=30),
            st.integers(0, len(good)).map(lambda size: good[:size]),
            st.binary(min_size=1, max_size=5).map(lambda more: good + more),
            st.tuples(st.integers(0, max(len(good) - 1, 0)), st.integers(0, 255)).map(
                lambda change: good[: change[0]] + bytes([change[1]]) + good[change[0] + 1 :]
            ),
        )
    )
    rows, status = read_columns([good, damaged, good], drawn.schema)
    expected = as_column(drawn.schema, read_with_fastavro(good, drawn.schema))
    for index in (0, 2):
        assert status[index] == 0
        assert repr(in_order(drawn.schema, rows[index])) == repr(expected)
    if status[1]:
        assert rows[1] is None
    else:
        # What we take, fastavro takes too, whole and with the same outcome; it takes more, such as a boolean of 2.
        assert repr(in_order(drawn.schema, rows[1])) == repr(as_column(drawn.schema, read_with_fastavro(damaged, drawn.schema)))


@settings(max_examples=100)
@given(st.data())
def test_a_message_that_is_cut_off_or_too_long_is_never_taken(data: st.DataObject) -> None:
    drawn = data.draw(records)
    good = encode(drawn.schema, data.draw(drawn.values))
    cut = [good[:size] for size in range(len(good))][:40]
    longer = [good + b"\x00", good + good, good + b"\xff" * 11]
    for content, code in zip([*cut, *longer], read_columns([*cut, *longer], drawn.schema)[1], strict=True):
        try:
            read_with_fastavro(content, drawn.schema)
        except Exception:  # noqa: BLE001 -- whatever fastavro stumbles over
            assert code != 0, content


def field(name: str, kind: Schema, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


PROMOTED = [("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double"),
            ("string", "bytes"), ("bytes", "string")]  # fmt: skip


@settings(max_examples=150)
@given(st.data())
def test_messages_of_another_schema_are_resolved_as_fastavro_resolves_them(data: st.DataObject) -> None:
    """A reader that has dropped, reordered, promoted, renamed and added fields."""
    written = data.draw(records)
    fields = []
    for old in written.schema["fields"]:
        change = data.draw(st.sampled_from(["keep", "drop", "optional", "rename"]))
        kind = old["type"]
        if change == "drop":
            continue
        if change == "optional" and not isinstance(kind, list) and kind != "null":
            kind = ["null", kind]
        renamed = field(f"new_{old['name']}", kind, aliases=[old["name"]]) if change == "rename" else field(old["name"], kind)
        fields.append(renamed)
    defaults = [("long", 7), ("string", "héllo"), (["null", "int"], None), ({"type": "array", "items": "int"}, [1, 2]),
                ({"type": "map", "values": "string"}, {"a": "b"}), ("double", 1.5), ("boolean", True),
                ({"type": "enum", "name": "ed", "symbols": ["X", "Y"]}, "Y"), (record(field("x", "int"), name="rd"), {"x": 5})]  # fmt: skip
    kind, default = data.draw(st.sampled_from(defaults))
    fields.append(field("added", kind, default=default))
    reader = written.schema | {"fields": data.draw(st.permutations(fields))}
    content = encode(written.schema, data.draw(written.values))
    rows, status = read_columns([content], written.schema, reader)
    assert status == [0]
    assert repr(in_order(reader, rows[0])) == repr(as_column(reader, read_with_fastavro(content, written.schema, reader)))


def nested_version(number: int) -> Schema:
    """A schema that every later one is backward compatible with: one nested record more, and larger."""
    inner = [
        record(*(field(f"n{each}", "string" if each % 2 else "long") for each in range(one)), name=f"inner{one}") for one in range(number)
    ]
    return record(field("id", "long"), *(field(f"r{one}", kind) for one, kind in enumerate(inner)), field("tail", "string"))


def nested_value(number: int, row: int) -> dict[str, Any]:
    """A value of that version."""
    inner = {f"r{one}": {f"n{each}": "x" * each if each % 2 else -each for each in range(one)} for one in range(number)}
    return {"id": row, "tail": f"row {row}"} | inner


def test_records_of_many_versions_are_each_skipped_by_their_own_program() -> None:
    versions = list(range(1, 41))
    messages = [(row % 40, encode(nested_version(versions[row % 40]), nested_value(versions[row % 40], row))) for row in range(200)]
    narrow = record(field("id", "long"), field("tail", "string"))
    rows, status = read_mixed_columns([nested_version(number) for number in versions], messages, narrow)
    assert status == [0] * 200
    assert rows == [{"id": row, "tail": f"row {row}"} for row in range(200)]


@settings(max_examples=60)
@given(st.data())
def test_messages_of_many_schemas_are_read_into_few_columns_as_fastavro_reads_them(data: st.DataObject) -> None:
    """Many writers, of which the reader knows two fields each time: the rest is skipped. Damaged messages between them do no harm."""
    drawn = [data.draw(records) for _ in range(data.draw(st.integers(2, 12)))]
    writers = [
        record(field("id", "long"), field("rest", one.schema), field("more", one.schema["name"]), field("tail", "string")) for one in drawn
    ]
    reader = record(field("tail", "string"), field("id", "long"))
    messages: list[tuple[int, bytes]] = []
    for row in range(data.draw(st.integers(1, 20))):
        number = data.draw(st.integers(0, len(writers) - 1))
        values = drawn[number].values
        value = {"id": row, "rest": data.draw(values), "more": data.draw(values), "tail": f"row {row}"}
        content = encode(writers[number], value)
        messages.append((number, content[: data.draw(st.integers(0, len(content) - 1))] if data.draw(st.booleans()) else content))
    rows, status = read_mixed_columns(writers, messages, reader)
    for (number, content), row, code in zip(messages, rows, status, strict=True):
        try:
            expected = read_with_fastavro(content, writers[number], reader)
        except Exception:  # noqa: BLE001 -- whatever fastavro stumbles over
            assert (row, code != 0) == (None, True)
        else:
            assert (row, code) == (expected, 0)


@pytest.mark.parametrize(("old", "new"), PROMOTED)
@given(data=st.data())
def test_numbers_and_text_are_promoted_as_fastavro_promotes_them(old: str, new: str, data: st.DataObject) -> None:
    values = VALUES["string"].map(str.encode) if old == "bytes" else VALUES[old]
    content = encode(record(field("x", old)), {"x": data.draw(values)})
    rows, status = read_columns([content], record(field("x", old)), record(field("x", new)))
    assert status == [0]
    value = rows[0]["x"]
    expected = read_with_fastavro(content, record(field("x", old)), record(field("x", new)))["x"]
    if new == "float":
        expected = float(np.float32(expected))
    assert value == (float(expected) if new == "double" else expected)


@pytest.mark.parametrize("aliases", [[], ["a"], ["c", "a"]])
def test_a_field_that_the_writer_has_is_not_read_from_an_alias(aliases: list[str]) -> None:
    content = encode(record(field("a", "int"), field("b", "int")), {"a": 1, "b": 2})
    reader = record(field("b", "int", aliases=aliases))
    assert read_columns([content], record(field("a", "int"), field("b", "int")), reader) == ([{"b": 2}], [0])


@pytest.mark.parametrize("count_of_items", [2**20, 2**40, 2**62, -(2**62), -(2**63)])
@pytest.mark.parametrize("items", ["null", record(name="empty"), "int", "string"])
def test_a_few_bytes_that_promise_many_items_are_refused_at_once(items: Schema, count_of_items: int) -> None:
    promised = encode("long", count_of_items) + (encode("long", 3) if count_of_items < 0 else b"") + b"\x00\x00\x00"
    assert read_columns([promised], record(field("x", {"type": "array", "items": items})))[1] != [0]


@pytest.mark.parametrize("reader", [record(field("x", {"type": "array", "items": "null"})), record(field("y", "int", default=1))])
def test_items_without_bytes_are_bounded_over_all_blocks_of_a_message(reader: Schema) -> None:
    """A block of three bytes may promise as many items as bytes follow it: so many blocks were the square of the message's length."""
    writer = record(field("x", {"type": "array", "items": "null"}))
    blocks = 40_000
    # From the end to the beginning, because each counts the bytes after it.
    greedy = [b"\x00"]
    size = 1
    for _ in range(blocks):
        greedy.append(encode("long", size))
        size += len(greedy[-1])
    modest = b"".join([encode("long", 64)] * blocks) + b"\x00"
    rows, status = read_mixed_columns([writer], [(0, b"".join(reversed(greedy))), (0, modest)], reader)
    assert [code != 0 for code in status] == [True, False]
    assert rows[1] == ({"x": [None] * 64 * blocks} if reader == writer else {"y": 1})


@pytest.mark.parametrize("branches", [63, 64, 65, 300])
def test_unions_of_many_branches_are_read_and_skipped(branches: int) -> None:
    union = [*({"type": "fixed", "name": f"f{number}", "size": 1} for number in range(branches)), "string"]
    writer = record(field("x", union), field("y", "int"))
    content = encode(writer, {"x": "text", "y": 7})
    assert read_columns([content], writer)[0][0]["x"][f"member{branches}"] == "text"
    assert read_columns([content], writer, record(field("y", "int"))) == ([{"y": 7}], [0])


def test_a_skipped_type_that_contains_itself_is_skipped_to_a_limit() -> None:
    node = record(field("next", ["null", "node"]), name="node")
    writer = record(field("chain", node), field("x", "int"))
    reader = record(field("x", "int"))

    def chain(length: int) -> bytes:
        return b"\x02" * length + b"\x00" + b"\x0e"

    assert read_columns([chain(3), chain(100), chain(5000)], writer, reader) == ([{"x": 7}, {"x": 7}, None], [0, 0, 10])


@pytest.mark.parametrize("depth", [400, 950, 3000])
def test_a_schema_that_is_nested_too_deeply_is_a_bad_one(depth: int) -> None:
    decoder = AvroDecoder(parse_avro([json.dumps(record(field("y", "int")))]))
    text = json.dumps(record(field("x", "DEEP"), field("y", "int"))).replace(
        '"DEEP"', depth * '{"type":"array","items":' + '"int"' + depth * "}"
    )
    with pytest.raises(BadSchema, match="nested too deeply"):
        decoder.add(parse_avro([text]))
    fine = record(field("y", "int"))
    assert decoder.add(parse_avro([json.dumps(fine)])) > 0


def test_a_schema_of_a_few_lines_that_would_be_millions_of_columns_is_a_bad_one() -> None:
    nested = record(field("x", "int"), name="r40")
    for level in reversed(range(40)):
        nested = record(field("a", nested), field("b", f"r{level + 1}"), name=f"r{level}")
    with pytest.raises(BadSchema, match="more than 100000 columns"):
        arrow_type(parse_avro([json.dumps(nested)]))


def test_unions_of_records_that_hold_unions_again_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every branch is a way to read the reader's columns, and has as many ways in it: sixty, four levels down, are 13 million."""
    monkeypatch.setattr("millstream.arrow.avro.program._MOST_OPERATIONS", 10_000)
    inner: Schema = "int"
    for level in "dcba":
        inner = [record(field(level, inner if number == 0 else read_names(inner)), name=f"{level}{number}") for number in range(60)]
    reader: Schema = "int"
    for level in "dcba":
        reader = record(field(level, reader), name=level)
    decoder = AvroDecoder(parse_avro([json.dumps(reader)]))
    with pytest.raises(BadSchema, match="too many to be read"):
        decoder.add(parse_avro([json.dumps(inner)]))
    assert decoder.add(parse_avro([json.dumps(reader)])) > 0


def read_names(schema: Schema) -> Schema:
    return [branch["name"] for branch in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(("size", "most"), [(4, 9), (8, 18), (15, 35), (16, 38)])
def test_a_decimal_with_more_digits_than_its_bytes_can_hold_stays_bytes_as_in_java(size: int, most: int) -> None:
    def column(precision: int) -> pa.DataType:
        schema = {"type": "fixed", "name": "f", "size": size, "logicalType": "decimal", "precision": precision}
        return arrow_type(parse_avro([json.dumps(schema)]))

    assert [column(most), column(most + 1), column(True)] == [pa.decimal128(most, 0), pa.binary(), pa.binary()]


def test_records_without_bytes_are_skipped_without_work() -> None:
    """Each of these records holds the next one twice: to walk them all would take 2^60 steps, for a message of one byte."""
    nested = record(name="r60")
    for level in reversed(range(60)):
        nested = record(field("a", nested), field("b", f"r{level + 1}"), name=f"r{level}")
    writer = record(field("nested", nested), field("x", "int"), name="outer")
    assert read_columns([b"\x0e"], writer, record(field("x", "int"))) == ([{"x": 7}], [0])
