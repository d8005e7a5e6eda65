"""Each rule of schema resolution, with the path of what breaks."""

import json
from typing import Any

import pytest

from millstream.avro.compatibility import MAX_REPORTED, Incompatibility, incompatibilities
from tests.unit.avro.schemas import decimal, enum, field, fixed, record, schema

LIST = record(field("next", ["null", "R"]), field("x", "int"))


def found(reader: Any, writer: Any) -> list[Incompatibility]:
    return incompatibilities(schema(reader), schema(writer))


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("long", "int"),
        ("float", "int"),
        ("float", "long"),
        ("double", "int"),
        ("double", "long"),
        ("double", "float"),
        ("bytes", "string"),
        ("string", "bytes"),
        ({"type": "int", "logicalType": "date"}, "int"),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
        ({"type": "map", "values": "double"}, {"type": "map", "values": "float"}),
        (["null", "long"], "int"),
        ("long", ["int"]),
        (["null", "long", "string"], ["int", "null"]),
        (enum("A", "B"), enum("A")),
        (enum("A", default="A"), enum("A", "B")),
        (enum("A", namespace="x"), enum("A", namespace="y")),
        (fixed(4, name="G", aliases=["F"]), fixed(4)),
        (record(field("a", "int"), field("b", "int", default=1)), record(field("a", "int"))),
        (record(field("a", "int"), field("b", ["null", "int"], default=None)), record(field("a", "int"))),
        (record(field("a", "int")), record(field("a", "int"), field("b", "string"))),
        (record(field("new", "int", aliases=["older", "old"])), record(field("old", "int"))),
        (record(name="N", namespace="x", aliases=["y.R"]), record(namespace="y")),
        (LIST, LIST),
        (decimal(9, 2), decimal(9, 2)),
        (decimal(9, 2), "bytes"),
        ("bytes", decimal(9, 2)),
        (["null", record(field("a", "int", default=0))], ["null", record()]),
    ],
    ids=str,
)
def test_the_reader_understands(reader: Any, writer: Any) -> None:
    assert found(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "kind", "pointer", "path"),
    [
        ("int", "long", "TYPE_MISMATCH", "/", "the schema itself"),
        ("boolean", "int", "TYPE_MISMATCH", "/", "the schema itself"),
        ("string", "int", "TYPE_MISMATCH", "/", "the schema itself"),
        ("int", ["int", "null"], "TYPE_MISMATCH", "/", "the schema itself"),
        (["int"], ["int", "null"], "MISSING_UNION_BRANCH", "/", "the schema itself"),
        (["null", "int"], "string", "MISSING_UNION_BRANCH", "/", "the schema itself"),
        (record(field("a", "int"), field("b", "int")), record(field("a", "int")), "READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "R.b"),
        (
            record(field("a", {"type": "array", "items": record(field("b", "int"), name="Q")})),
            record(field("a", {"type": "array", "items": record(field("b", "string"), name="Q")})),
            "TYPE_MISMATCH",
            "/fields/0/type/items/fields/0/type",
            "R.a[].b",
        ),
        (
            record(field("a", {"type": "map", "values": "int"})),
            record(field("a", {"type": "map", "values": "string"})),
            "TYPE_MISMATCH",
            "/fields/0/type/values",
            "R.a{}",
        ),
        (record(field("e", enum("A"))), record(field("e", enum("A", "B"))), "MISSING_ENUM_SYMBOLS", "/fields/0/type/symbols", "R.e"),
        (record(field("f", fixed(4))), record(field("f", fixed(5))), "FIXED_SIZE_MISMATCH", "/fields/0/type/size", "R.f"),
        (record(name="A"), record(name="B"), "NAME_MISMATCH", "/name", "A"),
        (enum("A", name="N", aliases=["x.E"]), enum("A", name="E", namespace="y"), "NAME_MISMATCH", "/name", "the schema itself"),
        (decimal(9, 2), decimal(9, 3), "TYPE_MISMATCH", "/", "the schema itself"),
        (decimal(9, 2), decimal(10, 2), "TYPE_MISMATCH", "/", "the schema itself"),
        (
            record(field("n", ["null", "R"]), field("b", "int")),
            record(field("n", ["null", "R"])),
            "MISSING_UNION_BRANCH",
            "/fields/0/type",
            "R.n",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_breaks_is_reported_with_its_place(reader: Any, writer: Any, kind: str, pointer: str, path: str) -> None:
    first = found(reader, writer)[0]
    assert (first.kind, first.pointer, first.path) == (kind, pointer, path)


def test_everything_that_breaks_is_reported() -> None:
    reader = record(field("a", "int"), field("b", "int"), field("c", "int"))
    assert [one.path for one in found(reader, record(field("a", "string")))] == ["R.a", "R.b", "R.c"]


def test_a_union_says_what_is_wrong_with_the_branch_that_was_meant() -> None:
    reader = ["null", record(field("a", "int"), name="A")]
    (only,) = found(reader, ["null", record(name="A")])
    assert only.kind == "MISSING_UNION_BRANCH"
    assert "A.a" in only.detail


def test_what_was_concluded_from_a_wrong_assumption_is_not_kept() -> None:
    # P is looked at first inside a union, where Q is found compatible because P is assumed to be; P is not, and so neither is Q.
    def document(kind: str) -> Any:
        q = record(field("p", ["null", "P"]), name="Q")
        p = record(field("q", ["null", q]), field("z", kind), name="P")
        return record(field("u", ["null", "string", p]), field("q", "Q"), name="T")

    paths = [one.path for one in found(document("int"), document("string"))]
    assert paths == ["T.u", "T.q"]


def test_types_that_use_each_other_many_times_are_compared_once() -> None:
    """Following every way through them would take 2**40 steps, and not end before the tests' own deadline."""

    def document(leaf: str) -> Any:
        inner: Any = leaf
        for level in range(40):
            again = f"A{level - 1}" if level else leaf
            inner = record(field("a", inner), field("b", again), name=f"A{level}")
        return inner

    assert found(document("long"), document("int")) == []
    assert 0 < len(found(document("int"), document("long"))) <= MAX_REPORTED


def test_a_reader_of_thousands_of_fields_gets_a_bounded_answer() -> None:
    many = record(*(field(f"f{number}", "int") for number in range(3_000)))
    assert len(found(many, record())) == MAX_REPORTED


def test_the_same_text_is_compatible_with_itself_whatever_it_is() -> None:
    deep: Any = "int"
    for level in range(70):
        deep = record(field("a", ["null", {"type": "array", "items": deep}] if level % 7 == 0 else deep), name=f"D{level}")
    text = json.dumps(deep)
    assert found(json.loads(text), json.loads(text)) == []
