"""The rules of resolution one at a time; whole schemas are compared in `test_compatibility`, and with fastavro in `tests/properties`."""

from typing import Any

import pytest

from millstream.avro.resolution import field_sources, names_match, symbol_as_read
from millstream.avro.schema import Enum, Fixed, Record
from tests.unit.avro.schemas import enum, field, fixed, record, schema


def made(document: Any, kind: type[Any]) -> Any:
    found = schema(document)
    assert isinstance(found, kind)
    return found


@pytest.mark.parametrize(
    ("written", "read", "expected"),
    [
        (["a", "b"], [("b", []), ("c", [])], ["b", None]),
        (["old"], [("new", ["older", "old"])], ["old"]),
        (["old", "new"], [("new", ["old"])], ["new"]),
        (["y", "x"], [("new", ["x", "y"])], ["x"]),
    ],
)
def test_a_field_is_filled_by_its_name_and_otherwise_by_its_first_alias(
    written: list[str], read: list[tuple[str, list[str]]], expected: list[str | None]
) -> None:
    writer = made(record(*(field(name, "int") for name in written)), Record)
    reader = made(record(*(field(name, "int", aliases=aliases) for name, aliases in read)), Record)
    assert [source and source.name for source in field_sources(writer, reader)] == expected


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        (fixed(2, "a.F"), fixed(2, "b.F"), True),
        (fixed(2, "a.F"), fixed(2, "b.G", aliases=["a.F"]), True),
        (fixed(2, "a.F"), fixed(2, "b.G", aliases=["F"]), False),
    ],
)
def test_names_match_by_their_last_part_or_an_alias_that_is_the_full_name(writer: Any, reader: Any, expected: bool) -> None:
    assert names_match(made(writer, Fixed), made(reader, Fixed)) is expected


def test_an_unknown_symbol_is_the_default_if_there_is_one() -> None:
    assert symbol_as_read("C", made(enum("A", "B"), Enum)) is None
    assert symbol_as_read("C", made(enum("A", "B", default="B"), Enum)) == "B"
