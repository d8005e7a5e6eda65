"""The checker's verdict beside what fastavro really does: written with one schema, read with the other."""

import json
from io import BytesIO
from typing import Any

import fastavro
from hypothesis import event, given, settings

from millstream.avro.compatibility import incompatibilities
from millstream.avro.parser import parse_schema
from millstream.avro.text import registered_text
from tests.properties.avro_schemas import Document, pairs, schemas, witnesses


def is_compatible(reader: Document, writer: Document) -> bool:
    return not incompatibilities(parse_schema(json.dumps(reader)).root, parse_schema(json.dumps(writer)).root)


def readable(reader: Document, writer: Document, value: Any) -> bool:
    """Whether fastavro reads with one schema what it wrote with the other."""
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(writer), value)
    buffer.seek(0)
    try:
        fastavro.schemaless_reader(buffer, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    except (fastavro.read.SchemaResolutionError, fastavro.schema.UnknownType, ValueError, TypeError, KeyError, IndexError):
        return False
    return True


@settings(max_examples=600)
@given(pairs())
def test_what_the_checker_allows_can_be_read_and_what_it_forbids_cannot(pair: tuple[Document, Document]) -> None:
    writer, reader = pair
    values = witnesses(writer)
    verdicts = [readable(reader, writer, value) for value in values]
    expected = all(verdicts)
    event("compatible" if expected else "incompatible")
    assert is_compatible(reader, writer) == expected, (writer, reader, list(zip(values, verdicts, strict=True)))


@settings(max_examples=200)
@given(schemas())
def test_a_schema_reads_what_it_wrote(document: Document) -> None:
    assert is_compatible(document, document)


@settings(max_examples=200)
@given(schemas())
def test_the_stored_form_says_the_same_and_is_its_own_stored_form(document: Document) -> None:
    parsed = parse_schema(json.dumps(document), is_strict=True)
    text = registered_text(parsed)
    assert registered_text(parse_schema(text, is_strict=True)) == text
    canonical = fastavro.schema.to_parsing_canonical_form
    assert canonical(fastavro.parse_schema(json.loads(text))) == canonical(fastavro.parse_schema(document))
