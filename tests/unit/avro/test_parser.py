"""What is a schema and what is not, with the place of what is wrong, and the bounds."""

import json
from typing import Any

import pytest

from millstream.avro.parser import MAX_DEPTH, MAX_TEXT_BYTES, SchemaError, parse_schema
from millstream.avro.schema import Array, Enum, Record, Union
from tests.unit.avro.schemas import enum, field, fixed, record


def refusal(document: Any, *, is_strict: bool = True) -> str:
    with pytest.raises(SchemaError) as caught:
        parse_schema(document if isinstance(document, str) else json.dumps(document), is_strict=is_strict)
    return str(caught.value)


def test_every_kind_of_type_is_read() -> None:
    document = record(
        field("n", "null"),
        field("i", {"type": "int", "logicalType": "date"}, doc="d", default=1, order="descending", aliases=["j"], extra=[1]),
        field("a", {"type": "array", "items": "string"}),
        field("m", {"type": "map", "values": "double"}),
        field("u", ["null", "R", enum("A", "B", default="A"), fixed(4)]),
        namespace="x.y",
        aliases=["Old", "z.Older"],
        doc="all of it",
    )
    root = parse_schema(json.dumps(document), is_strict=True).root
    assert isinstance(root, Record)
    assert (root.fullname, root.aliases, root.doc) == ("x.y.R", ("x.y.Old", "z.Older"), "all of it")
    number, array, union = root.fields[1], root.fields[2].schema, root.fields[4].schema
    assert (number.doc, number.default, number.order, number.aliases, number.properties) == ("d", 1, "descending", ("j",), {"extra": [1]})
    assert number.schema.properties == {"logicalType": "date"}
    assert isinstance(array, Array)
    assert isinstance(union, Union)
    assert union.branches[1] is root
    assert isinstance(union.branches[2], Enum)
    assert union.branches[2].fullname == "x.y.E"


@pytest.mark.parametrize(
    ("document", "what", "where"),
    [
        ("{", "not JSON", ""),
        ("NaN", "not JSON", ""),
        ("1", "a type is a name, a list or an object", "/"),
        ({"items": "int"}, "needs a type", "/"),
        ("strin", "not JSON", ""),
        ('"strin"', "'strin' is no type", "/"),
        ({"type": "array"}, "needs 'items'", "/"),
        (record(field("a", {"type": "map", "values": "nope"})), "'nope' is no type", "/fields/0/type/values"),
        ({"type": "record", "name": "R"}, "needs 'fields'", "/"),
        ({"type": "record", "fields": []}, "needs 'name'", "/"),
        ({"type": "record", "name": "R", "fields": {}}, "fields is a list", "/fields"),
        (record(field("a", "int"), field("a", "int")), "two fields 'a'", "/fields/1"),
        (record({"name": "a"}), "needs 'type'", "/fields/0"),
        (record({"type": "int"}), "needs 'name'", "/fields/0"),
        (record(field("a-b", "int")), "'a-b' is no name", "/fields/0/name"),
        (record(field("a", "int", order="up")), "order is one of", "/fields/0/order"),
        (record(field("a", "int", aliases="b")), "aliases is a list of names", "/fields/0/aliases"),
        (record(field("a", "int", default="x")), 'R.a does not fit: "x" is no int', "/fields/0/default"),
        (record(field("a", ["null", "int"], default="x")), "R.a does not fit", "/fields/0/default"),
        (record(field("a", fixed(2), default="abc")), "R.a does not fit", "/fields/0/default"),
        (record(field("a", "int", default=2**31)), "R.a does not fit", "/fields/0/default"),
        (record(name="int"), "may not be called 'int'", "/name"),
        (record(name="1x"), "'1x' is no name", "/name"),
        (record(field("a", record(name="R"))), "'R' is defined twice", "/fields/0/type"),
        (enum("A", "A"), "'A' twice", "/symbols"),
        (enum("A", default="B"), "'B' is none of the symbols", "/default"),
        (enum("a b"), "'a b' is no name", "/symbols"),
        ({"type": "enum", "name": "E"}, "needs 'symbols'", "/"),
        (fixed(-1), "a size is a number", "/size"),
        (["int", "int"], "'int' twice", "/1"),
        (["int", ["null"]], "may not directly hold another union", "/1"),
        (record(doc=1), "doc is a text", "/doc"),
        ({"type": "record", "name": "R", "namespace": 1, "fields": []}, "a namespace is a text", "/namespace"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(document: Any, what: str, where: str) -> None:
    message = refusal(document)
    assert what in message
    assert message.endswith(f"(at {where})") or not where


def test_old_schemas_may_have_odd_names_and_defaults() -> None:
    document = record(field("a-b", "int", default="x"), name="1")
    assert isinstance(parse_schema(json.dumps(document)).root, Record)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("null", None),
        ("boolean", True),
        ("long", 2**62),
        ("float", 1),
        ("bytes", "\u00ff"),
        ("string", "\u2713"),
        (["int", "string"], "x"),
        ({"type": "array", "items": "int"}, [1]),
        ({"type": "map", "values": "int"}, {"a": 1}),
        (enum("A"), "A"),
        (fixed(2), "\u0000\u00ff"),
        (record(field("x", "int"), field("y", "int", default=1), name="Q"), {"x": 1}),
    ],
)
def test_defaults_that_fit_are_taken(kind: Any, default: Any) -> None:
    parse_schema(json.dumps(record(field("a", kind, default=default))), is_strict=True)


def test_names_are_looked_for_in_the_namespace_and_then_without_one() -> None:
    document = [record(name="Plain"), record(field("a", "Plain"), field("b", "In"), name="In", namespace="n")]
    root = parse_schema(json.dumps(document), is_strict=True).root
    assert isinstance(root, Union)
    assert isinstance(root.branches[1], Record)
    assert [one.schema for one in root.branches[1].fields] == [root.branches[0], root.branches[1]]


def test_types_of_other_schemas_are_known_by_name() -> None:
    parsed = parse_schema(json.dumps(record(field("a", "x.A"))), references=[json.dumps(record(name="A", namespace="x"))])
    assert parsed.foreign == {"x.A"}


def test_a_schema_may_not_define_a_type_that_it_refers_to() -> None:
    with pytest.raises(SchemaError, match="'A' is defined twice"):
        parse_schema(json.dumps(record(name="A")), references=[json.dumps(record(name="A"))])


def test_size_depth_and_number_of_types_are_bounded() -> None:
    def nested(depth: int) -> str:
        return '{"type":"array","items":' * depth + '"int"' + "}" * depth

    parse_schema(nested(MAX_DEPTH))
    assert f"deeper than {MAX_DEPTH}" in refusal(nested(MAX_DEPTH + 1))
    assert f"deeper than {MAX_DEPTH}" in refusal(nested(30_000))
    assert f"bigger than {MAX_TEXT_BYTES}" in refusal(json.dumps("x" * MAX_TEXT_BYTES))
    assert "more than" in refusal(json.dumps(record(*(field(f"f{number}", "int") for number in range(25_000)))))


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert "surrogate" in refusal('{"type":"record","name":"R","doc":"\ud800","fields":[]}')
