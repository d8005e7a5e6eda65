"""The form in which schemas are stored."""

import json
from typing import Any

import fastavro
import pytest

from millstream.avro.parser import parse_schema
from millstream.avro.text import registered_text, resolved_text
from tests.unit.avro.schemas import decimal, enum, field, fixed, record


def stored(document: Any, **options: Any) -> str:
    return registered_text(parse_schema(json.dumps(document)), **options)


def test_two_spellings_of_a_schema_are_stored_alike() -> None:
    one = '{ "fields" : [ {"type": {"type":"string"}, "name":"a", "order":"ascending"} ], "name":"x.R", "type":"record" }'
    other = '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":"string"}]}'
    assert registered_text(parse_schema(one)) == registered_text(parse_schema(other)) == other


def test_everything_that_was_said_is_kept_in_javas_order() -> None:
    document = {
        "aliases": ["x.Old", "y.Older"],
        "extra": {"b": 1, "a": 2},
        "fields": [
            {"aliases": ["b"], "default": None, "doc": "d", "extra": 1, "name": "a", "order": "ignore", "type": ["null", "x.R"]},
            {"name": "e", "type": {"symbols": ["A"], "default": "A", "name": "E", "type": "enum", "doc": "é"}},
            {"name": "f", "type": {"size": 1, "name": "other.F", "type": "fixed", "logicalType": "l"}},
            {"name": "g", "type": "other.F"},
        ],
        "doc": "doc",
        "name": "R",
        "namespace": "x",
        "type": "record",
    }
    assert stored(document) == (
        '{"type":"record","name":"R","namespace":"x","doc":"doc","fields":['
        '{"name":"a","type":["null","R"],"doc":"d","default":null,"order":"ignore","aliases":["b"],"extra":1},'
        '{"name":"e","type":{"type":"enum","name":"E","doc":"é","symbols":["A"],"default":"A"}},'
        '{"name":"f","type":{"type":"fixed","name":"F","namespace":"other","size":1,"logicalType":"l"}},'
        '{"name":"g","type":"other.F"}],"extra":{"b":1,"a":2},"aliases":["Old","y.Older"]}'
    )


def test_normalising_sorts_what_the_specification_does_not_define() -> None:
    one, other = ({"type": "int", "b": {"y": 1, "x": 2}, "a": 1}, {"type": "int", "a": 1, "b": {"x": 2, "y": 1}})
    assert stored(one) != stored(other)
    assert stored(one, is_normalized=True) == stored(other, is_normalized=True) == '{"type":"int","a":1,"b":{"x":2,"y":1}}'


def test_types_of_other_schemas_are_stored_by_name_and_written_out_when_resolved() -> None:
    parsed = parse_schema(json.dumps(record(field("a", "x.A"))), references=[json.dumps(record(name="A", namespace="x"))])
    assert registered_text(parsed) == '{"type":"record","name":"R","fields":[{"name":"a","type":"x.A"}]}'
    assert '"name":"A","namespace":"x"' in resolved_text(parsed)


def test_a_type_without_namespace_inside_one_says_so() -> None:
    document = record(field("a", record(name="A", namespace="")), namespace="x")
    assert '{"type":"record","name":"A","namespace":"","fields":[]}' in stored(document)
    assert stored(json.loads(stored(document))) == stored(document)


SCHEMAS = [
    "int",
    ["null", "string"],
    {"type": "map", "values": {"type": "array", "items": "bytes"}},
    enum("A", "B", namespace="x", doc="d", default="A"),
    fixed(16, namespace="a.b"),
    decimal(9, 2),
    record(field("a", "int", default=1, doc="d"), field("r", ["null", "n.R"]), field("e", enum("X")), namespace="n", aliases=["o"]),
]


@pytest.mark.parametrize("document", SCHEMAS, ids=lambda document: str(document)[:40])
def test_the_stored_form_means_the_same_to_others(document: Any) -> None:
    canonical = fastavro.schema.to_parsing_canonical_form
    assert canonical(fastavro.parse_schema(json.loads(stored(document)))) == canonical(fastavro.parse_schema(document))
