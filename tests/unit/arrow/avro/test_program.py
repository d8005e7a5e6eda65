import json

import pytest

from millstream.arrow.avro.column_types import BadSchema, parse_avro
from millstream.arrow.avro.program import Compiler
from millstream.avro.schema import Schema


def record(name: str, *fields: str) -> Schema:
    entries = [{"name": field, "type": ["null", "string"], "default": None} for field in fields]
    return parse_avro([json.dumps({"type": "record", "name": name, "fields": entries})])


def test_a_record_that_has_nothing_to_do_with_the_readers_is_refused() -> None:
    """All fields of the reader have defaults, so it would be read as a row of nulls."""
    compiler = Compiler(record("view", "page", "user"))
    with pytest.raises(BadSchema, match="the record order, which has another name and none of the fields"):
        compiler.add(record("order", "price"))
    begun = [compiler.add(writer) for writer in (record("order", "price", "user"), record("view", "price"), record("empty"))]
    assert len(set(begun)) == 3
