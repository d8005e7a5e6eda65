"""`validateFields`, `defaultMetadata` and `overrideMetadata` of a config: what they do to schemas that are registered."""

import json
from typing import Any

import pytest

from millstream.registry.errors import IncompatibleSchema, InvalidRequest
from tests.unit.registry.book import Book, record_schema

OWNER = {"properties": {"owner": "anyone", "team": "data"}, "tags": {"R.a": ["PII"]}, "sensitive": ["owner"]}


def metadata(book: Book, subject: str) -> Any:
    """The metadata of the latest version."""
    text = book.state.versions(subject)[-1].content.metadata
    return json.loads(text) if text else None


def test_what_a_schema_does_not_say_is_said_by_its_config(book: Book) -> None:
    assert book.set_config("s", defaultMetadata=OWNER) == {"defaultMetadata": OWNER}
    first = book.register("s", record_schema("a"))
    assert metadata(book, "s") == OWNER
    assert book.register("s", record_schema("a")) == first
    assert book.look_up("s", record_schema("a")) == 1
    book.register("s", record_schema("a", "b"), metadata={"properties": {"owner": "ann"}})
    assert metadata(book, "s") == {**OWNER, "properties": {"owner": "ann", "team": "data"}}


def test_what_the_version_before_said_comes_before_the_default(book: Book) -> None:
    book.register("s", record_schema("a"), metadata={"properties": {"owner": "ann"}})
    book.set_config("s", defaultMetadata=OWNER)
    book.register("s", record_schema("a", "b"))
    assert metadata(book, "s")["properties"] == {"owner": "ann", "team": "data"}


def test_what_a_config_overrides_is_said_last(book: Book) -> None:
    book.set_config(None, overrideMetadata={"properties": {"owner": "us"}})
    book.register("s", record_schema("a"), metadata={"properties": {"owner": "ann", "x": "y"}})
    assert metadata(book, "s") == {"properties": {"owner": "us", "x": "y"}}


def test_a_subject_with_a_config_of_its_own_has_no_other_metadata(book: Book) -> None:
    book.set_config(None, defaultMetadata=OWNER)
    book.set_config("s", compatibility="FULL")
    book.register("s", record_schema("a"))
    book.register("t", record_schema("a"))
    assert (metadata(book, "s"), metadata(book, "t")) == (None, OWNER)


def test_imported_schemas_stay_as_they_are(book: Book) -> None:
    book.set_config(None, defaultMetadata=OWNER)
    book.set_mode(None, "IMPORT")
    book.register("s", record_schema("a"), id=7, version=1)
    assert metadata(book, "s") is None


@pytest.mark.parametrize(
    "wrong", [5, [], {"owner": "x"}, {"properties": {"a": 1}}, {"properties": ["a"]}, {"tags": {"a": "b"}}, {"sensitive": {"a": "b"}}]
)
def test_metadata_of_another_shape_is_refused(book: Book, wrong: object) -> None:
    with pytest.raises(InvalidRequest, match="defaultMetadata"):
        book.set_config("s", defaultMetadata=wrong)
    with pytest.raises(InvalidRequest, match="validateFields"):
        book.set_config("s", validateFields="yes")


def test_reserved_fields_are_not_taken_and_stay_reserved(book: Book) -> None:
    reserved = {"properties": {"confluent:reserved": "secret, later"}}
    book.register("free", record_schema("secret"), metadata=reserved)
    book.set_config("s", validateFields=True, compatibility="NONE")
    with pytest.raises(IncompatibleSchema, match="The new schema has field that conflicts with the reserved field secret"):
        book.register("s", record_schema("secret"), metadata=reserved)
    book.register("s", record_schema("a"), metadata=reserved)
    with pytest.raises(IncompatibleSchema, match="reserved field later removed from its metadata") as raised:
        book.register("s", record_schema("b"), metadata={"properties": {"confluent:reserved": "secret"}})
    assert "{validateFields: 'true', compatibility: 'NONE'}" in str(raised.value)
    book.register("s", '"int"', metadata=reserved)
    book.set_config("s", validateFields=False)
    book.register("s", record_schema("secret"), metadata=reserved)
