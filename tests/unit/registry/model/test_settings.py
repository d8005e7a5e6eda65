"""Config and mode: what holds where, and how it is changed."""

import pytest

from millstream.registry.errors import (
    ConfigNotFound,
    InvalidLevel,
    InvalidMode,
    InvalidRequest,
    InvalidSubject,
    ModeNotFound,
    OperationNotPermitted,
    ReferenceExists,
    SubjectNotFound,
)
from millstream.registry.model.settings import Mode, config_in_scope, config_of, mode_in_scope, mode_of
from tests.unit.registry.book import Book


def level(book: Book, subject: str | None) -> str:
    return str(config_in_scope(book.state, subject)["compatibilityLevel"])


def test_the_nearest_level_holds(book: Book) -> None:
    assert level(book, "a") == "BACKWARD"
    book.set_config(":.__GLOBAL:", compatibility="FORWARD")
    assert (level(book, "a"), level(book, ":.c:a")) == ("FORWARD", "FORWARD")
    book.set_config(None, compatibility="none")
    book.set_config(":.c:", compatibility="FULL")
    assert (level(book, "a"), level(book, ":.c:a")) == ("NONE", "FULL")
    book.set_config("a", compatibility="full_transitive")
    assert level(book, "a") == "FULL_TRANSITIVE"


def test_a_config_is_changed_in_parts_and_null_removes(book: Book) -> None:
    assert book.set_config("a", compatibility="FULL", normalize=True) == {"compatibility": "FULL", "normalize": True}
    assert book.set_config("a", compatibility=None, alias="b") == {"normalize": True, "alias": "b"}
    assert level(book, "a") == "BACKWARD"


def test_a_subject_without_a_config_says_so_unless_the_global_one_will_do(book: Book) -> None:
    with pytest.raises(ConfigNotFound):
        config_of(book.state, "a", default_to_global=False)
    assert config_of(book.state, "a", default_to_global=True) == {"compatibilityLevel": "BACKWARD"}
    assert config_of(book.state, None, default_to_global=False) == {"compatibilityLevel": "BACKWARD"}
    with pytest.raises(ModeNotFound):
        mode_of(book.state, "a", default_to_global=False)
    assert mode_of(book.state, ":.:", default_to_global=False) == "READWRITE"


def test_removing_a_config_lets_the_wider_one_hold(book: Book) -> None:
    book.set_config("a", compatibility="FULL")
    assert book.delete_config("a") == {"compatibilityLevel": "FULL"}
    with pytest.raises(SubjectNotFound):
        book.delete_config("a")
    assert book.delete_config(None) == {"compatibilityLevel": "BACKWARD"}


@pytest.mark.parametrize(
    ("config", "kind"),
    [({"compatibility": "SIDEWAYS"}, InvalidLevel), ({"compatibility": 1}, InvalidLevel), ({"overrideRuleSet": {}}, InvalidRequest)],
)
def test_what_cannot_be_set_is_refused(book: Book, config: dict[str, object], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        book.set_config("a", **config)
    with pytest.raises(InvalidSubject):
        book.set_config("__GLOBAL", compatibility="FULL")


def test_the_nearest_mode_holds(book: Book) -> None:
    book.set_mode(None, "READONLY")
    book.set_mode("a", "readwrite")
    assert (mode_in_scope(book.state, "a"), mode_in_scope(book.state, "b")) == (Mode.READWRITE, Mode.READONLY)
    assert mode_in_scope(book.state, ":.c:a") is Mode.READWRITE
    with pytest.raises(InvalidMode):
        book.set_mode("a", "WHATEVER")


def test_import_mode_needs_an_empty_place_and_forgets_what_was_deleted(book: Book) -> None:
    book.register("a", '"int"')
    with pytest.raises(OperationNotPermitted, match="existing subjects"):
        book.set_mode("a", "IMPORT")
    book.set_mode("a", "IMPORT", force=True)
    book.set_mode("a", None)
    book.delete_subject("a")
    book.set_mode("a", "IMPORT")
    assert book.state.subjects == {}
    assert book.state.modes == {"a": "IMPORT"}


def test_import_mode_does_not_forget_what_others_refer_to(book: Book) -> None:
    book.register("a", {"type": "fixed", "name": "A", "size": 1})
    book.register("b", {"type": "array", "items": "A"}, references=[{"name": "A", "subject": "a", "version": 1}])
    book.delete_subject("b")
    book.delete_subject("a")
    with pytest.raises(ReferenceExists):
        book.set_mode("a", "IMPORT")


def test_modes_of_a_whole_context_can_be_removed(book: Book) -> None:
    for place in (":.c:", ":.c:a", "b"):
        book.set_mode(place, "READONLY")
    assert book.delete_mode(":.c:", is_recursive=True) == {"mode": "READONLY"}
    assert list(book.state.modes) == ["b"]
    with pytest.raises(SubjectNotFound):
        book.delete_mode("nothing")
