"""Deleting, softly and for good, and what stands in the way."""

import pytest

from millstream.registry.errors import (
    OperationNotPermitted,
    ReferenceExists,
    SubjectNotFound,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    VersionNotFound,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
)
from millstream.registry.model.deletion import decide_context_deletion
from millstream.registry.model.registration import LATEST
from tests.unit.registry.book import Book

REFERENCE = {"name": "A", "subject": "a", "version": 1}


def test_a_version_is_deleted_softly_and_then_for_good(book: Book) -> None:
    book.register("a", '"int"')
    with pytest.raises(VersionNotSoftDeleted):
        book.delete_version("a", 1, permanent=True)
    assert book.delete_version("a", 1) == 1
    with pytest.raises(VersionSoftDeleted):
        book.delete_version("a", 1)
    assert book.delete_version("a", 1, permanent=True) == 1
    with pytest.raises(SubjectNotFound):
        book.delete_version("a", 1)


def test_the_latest_version_can_be_deleted_by_that_name(book: Book) -> None:
    book.register("a", '"int"')
    book.register("a", '"long"')
    assert [book.delete_version("a", LATEST) for _ in range(2)] == [2, 1]
    assert book.delete_version("a", LATEST, permanent=True) == 2


def test_a_subject_is_deleted_softly_and_then_for_good_with_its_settings(book: Book) -> None:
    book.register("a", '"int"')
    book.register("a", '"long"')
    book.set_config("a", compatibility="FULL")
    book.set_mode("a", "READWRITE")
    with pytest.raises(SubjectNotSoftDeleted):
        book.delete_subject("a", permanent=True)
    assert book.delete_subject("a") == [1, 2]
    with pytest.raises(SubjectSoftDeleted):
        book.delete_subject("a")
    assert book.delete_subject("a", permanent=True) == [1, 2]
    assert (book.state.configs, book.state.modes, book.state.subjects) == ({}, {}, {})
    with pytest.raises(SubjectNotFound):
        book.delete_subject("a")


def test_an_id_is_not_given_again_after_its_schema_is_gone(book: Book) -> None:
    book.register("a", '"int"')
    book.delete_subject("a")
    book.delete_subject("a", permanent=True)
    assert book.register("a", '"int"') == (2, 1)


def test_what_others_refer_to_stays(book: Book) -> None:
    book.register("a", {"type": "fixed", "name": "A", "size": 1})
    book.register("b", {"type": "array", "items": "A"}, references=[REFERENCE])
    with pytest.raises(ReferenceExists, match="subject=a,version=1"):
        book.delete_version("a", 1)
    with pytest.raises(ReferenceExists):
        book.delete_subject("a")
    book.delete_subject("b")
    assert book.delete_subject("a") == [1]
    with pytest.raises(ReferenceExists):
        book.delete_subject("a", permanent=True)
    book.delete_subject("b", permanent=True)
    assert book.delete_subject("a", permanent=True) == [1]


def test_a_subject_may_refer_to_itself_and_still_be_deleted(book: Book) -> None:
    book.set_config("a", compatibility="NONE")
    book.register("a", {"type": "fixed", "name": "A", "size": 1})
    book.register("a", {"type": "array", "items": "A"}, references=[REFERENCE])
    assert book.delete_subject("a") == [1, 2]
    assert book.delete_subject("a", permanent=True) == [1, 2]


def test_unknown_versions_and_subjects_are_refused(book: Book) -> None:
    with pytest.raises(SubjectNotFound):
        book.delete_version("a", 1)
    book.register("a", '"int"')
    with pytest.raises(VersionNotFound):
        book.delete_version("a", 2)


def test_nothing_is_deleted_in_read_only_mode(book: Book) -> None:
    book.register("a", '"int"')
    book.set_mode("a", "READONLY_OVERRIDE")
    with pytest.raises(OperationNotPermitted):
        book.delete_version("a", 1)
    with pytest.raises(OperationNotPermitted):
        book.delete_subject("a")


def test_only_an_empty_context_is_forgotten(book: Book) -> None:
    book.register(":.c:a", '"int"')
    with pytest.raises(OperationNotPermitted) as caught:
        decide_context_deletion(book.state, ".c")
    assert caught.value.code == 42211
    book.delete_subject(":.c:a")
    book.delete_subject(":.c:a", permanent=True)
    book.carry_out(decide_context_deletion(book.state, ":.c:"))
    assert book.state.contexts == ["."]
