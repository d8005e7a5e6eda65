"""Registering: ids, versions, references, modes, levels, and the refusals."""

import json
from typing import Any

import pytest

from millstream.registry.errors import (
    IdDoesNotMatch,
    IncompatibleSchema,
    InvalidRequest,
    InvalidSchema,
    InvalidSubject,
    OperationNotPermitted,
    RegistryError,
)
from millstream.registry.model.records import Content, Reference, StoredVersion
from tests.unit.registry.book import Book, record_schema

ADDRESS = {"type": "record", "name": "Address", "namespace": "shop", "fields": []}
USER = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "a", "type": "Address"}]}
REFERENCE = {"name": "shop.Address", "subject": "address", "version": 1}


def test_versions_count_per_subject_and_the_same_schema_has_one_id(book: Book) -> None:
    assert book.register("a", record_schema()) == (1, 1)
    assert book.register("a", record_schema("x")) == (2, 2)
    assert book.register("b", record_schema("x")) == (2, 1)
    assert book.register("b", record_schema()) == (1, 2)


def test_registering_again_writes_nothing(book: Book) -> None:
    book.register("a", record_schema())
    written = len(book.records)
    assert book.register("a", json.dumps(record_schema(), indent=4)) == (1, 1)
    assert len(book.records) == written


def test_the_order_of_properties_matters_unless_it_is_normalised(book: Book) -> None:
    one, other = ({"type": "int", "p": 1, "q": 2}, {"type": "int", "q": 2, "p": 1})
    assert book.register("a", one, normalize=True) == (1, 1)
    assert book.register("a", other) == (2, 2)
    assert book.look_up("a", other, normalize=True) == 1
    book.set_config("b", normalize=True)
    assert book.register("b", other) == (1, 1)


def test_contexts_are_registered_with_their_first_subject(book: Book) -> None:
    book.register("a", record_schema())
    assert book.register(":.c:a", record_schema("x")) == (1, 1)
    assert [record.key.type for record in book.records] == ["SCHEMA", "CONTEXT", "SCHEMA"]
    assert book.register(":.c:b", record_schema("x", "y")) == (2, 1)
    assert [record.key.type for record in book.records][3:] == ["SCHEMA"]


def test_types_of_other_schemas_are_found_by_reference(book: Book) -> None:
    book.register("address", ADDRESS)
    assert book.register("user", USER, references=[REFERENCE]) == (2, 1)
    assert book.look_up("user", USER, references=[REFERENCE]) == 1
    inlined = {**USER, "fields": [{"name": "a", "type": ADDRESS}]}
    assert book.look_up("user", inlined) == 1
    assert book.register("user", inlined) == (2, 1)


def test_a_reference_to_the_latest_version_is_one_to_its_number(book: Book) -> None:
    book.register("address", ADDRESS)
    book.register("user", USER, references=[{**REFERENCE, "version": -1}])
    assert book.state.versions("user")[0].content.references[0].version == 1


def test_references_of_references_are_followed_each_once(book: Book) -> None:
    book.register("address", ADDRESS)
    book.register("user", USER, references=[REFERENCE])
    order = {"type": "record", "name": "Order", "fields": [{"name": "u", "type": "shop.User"}, {"name": "a", "type": "shop.Address"}]}
    references = [{"name": "shop.User", "subject": "user", "version": 1}, REFERENCE]
    assert book.register("order", order, references=references) == (3, 1)


def test_compatibility_sees_through_references(book: Book) -> None:
    book.register("address", ADDRESS)
    book.set_config("address", compatibility="NONE")
    book.register("address", {**ADDRESS, "fields": [{"name": "zip", "type": "string"}]})
    book.register("user", USER, references=[REFERENCE])
    with pytest.raises(IncompatibleSchema, match=r"shop\.User\.a\.zip"):
        book.register("user", USER, references=[{**REFERENCE, "version": 2}])


def test_an_incompatible_schema_is_refused_with_the_path_of_the_field(book: Book) -> None:
    book.register("a", record_schema())
    with pytest.raises(IncompatibleSchema, match=r"R\.b.*no default value") as caught:
        book.register("a", {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]})
    assert (caught.value.status, caught.value.code) == (409, 409)
    book.set_config("a", compatibility="none")
    assert book.register("a", {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}) == (2, 2)


def test_deleted_versions_do_not_count_for_compatibility(book: Book) -> None:
    book.register("a", '"int"')
    book.delete_version("a", 1)
    assert book.register("a", '"string"') == (2, 2)


def test_a_deleted_schema_comes_back_with_its_id_and_a_new_version(book: Book) -> None:
    book.register("a", '"int"')
    book.register("a", '"long"')
    book.delete_subject("a")
    assert book.register("a", '"int"') == (1, 3)
    assert sorted(book.state.subjects["a"]) == [2, 3]


def test_a_compatibility_group_only_looks_at_its_own(book: Book) -> None:
    book.set_config("a", compatibilityGroup="major")
    book.register("a", '"int"', metadata={"properties": {"major": "1"}})
    assert book.register("a", '"string"', metadata={"properties": {"major": "2"}}) == (2, 2)
    with pytest.raises(IncompatibleSchema):
        book.register("a", '"boolean"', metadata={"properties": {"major": "2"}})


def test_metadata_makes_another_schema(book: Book) -> None:
    book.register("a", '"int"')
    assert book.register("a", '"int"', metadata={"properties": {"owner": "x"}}) == (2, 2)


def test_what_is_there_is_answered_in_read_only_mode_and_nothing_else(book: Book) -> None:
    book.register("a", '"int"')
    book.set_mode(None, "READONLY")
    assert book.register("a", '"int"') == (1, 1)
    with pytest.raises(OperationNotPermitted, match="read-only"):
        book.register("a", '"long"')


def test_importing_keeps_id_and_version(book: Book) -> None:
    with pytest.raises(OperationNotPermitted, match="not in import mode"):
        book.register("a", '"int"', id=10, version=3)
    book.set_mode("a", "IMPORT")
    assert book.register("a", '"int"', id=10, version=3) == (10, 3)
    assert book.register("a", '"string"', id=12, version=2) == (12, 2)
    with pytest.raises(IdDoesNotMatch):
        book.register("a", '"bytes"', id=10, version=4)
    with pytest.raises(OperationNotPermitted, match="not in read-write mode"):
        book.register("a", '"long"')
    book.delete_mode("a")
    assert book.register("b", '"boolean"') == (13, 1)


def test_a_version_that_is_not_the_next_is_refused(book: Book) -> None:
    assert book.register("a", '"int"', version=1) == (1, 1)
    with pytest.raises(InvalidSchema, match="has to be 2"):
        book.register("a", '"long"', version=5)


@pytest.mark.parametrize(
    ("document", "kind", "what"),
    [
        ({}, InvalidSchema, "Empty schema"),
        ({"schema": "  "}, InvalidSchema, "Empty schema"),
        ({"schema": {"type": "int"}}, InvalidRequest, "JSON text"),
        ({"schema": "syntax = 'proto3'", "schemaType": "PROTOBUF"}, InvalidSchema, "AVRO alone"),
        ({"schema": "{}", "schemaType": "JSON"}, InvalidSchema, "AVRO alone"),
        ({"schema": "int"}, InvalidSchema, "not JSON"),
        ({"schema": '"nope"'}, InvalidSchema, "'nope' is no type"),
        ({"schema": '"int"', "references": [{"name": "x"}]}, InvalidRequest, "needs name, subject and version"),
        (
            {"schema": '"int"', "references": [{"name": "x", "subject": "y", "version": 1}]},
            InvalidSchema,
            "no schema found for the reference",
        ),
        ({"schema": '"int"', "references": [{"name": "x", "subject": "y", "version": 1}] * 101}, InvalidSchema, "101 references"),
        ({"schema": '"int"', "id": "x"}, InvalidRequest, "numbers"),
        ({"schema": '"int"', "version": 2**40}, InvalidRequest, "numbers"),
        ({"schema": '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'}, InvalidSchema, "does not fit"),
    ],
)
def test_bad_requests_are_refused(book: Book, document: dict[str, Any], kind: type[RegistryError], what: str) -> None:
    from millstream.registry.model.registration import read_request

    with pytest.raises(kind, match=what):
        book.carry_out(book.registrar.decide_registration("a", read_request(document), normalize=False))
    assert book.records == []


@pytest.mark.parametrize("subject", ["", "*", "__GLOBAL", "__EMPTY", "a\nb", ":.__GLOBAL:a", ":.c:", "x" * 1_001])
def test_names_that_no_subject_can_have_are_refused(book: Book, subject: str) -> None:
    with pytest.raises(InvalidSubject):
        book.register(subject, '"int"')


def test_a_schema_that_refers_to_too_many_is_refused(book: Book) -> None:
    def text(number: int) -> str:
        return json.dumps(
            {"type": "record", "name": f"F{number}", "fields": [{"name": "f", "type": f"F{number - 1}" if number else "int"}]}
        )

    def references(number: int) -> tuple[Reference, ...]:
        return (Reference(f"F{number - 1}", f"s{number - 1}", 1),) if number else ()

    for number in range(501):
        content = Content(text(number), references(number))
        book.state.apply(StoredVersion(f"s{number}", 1, number + 1, content, content.guid).record())
    last = [{"name": "F500", "subject": "s500", "version": 1}]
    with pytest.raises(InvalidSchema, match="more than 500"):
        book.register("last", text(501), references=last)
    with pytest.raises(InvalidSchema, match="'F499' is no type"):
        book.register("last", text(500))
