import json
import time

import pytest

from millstream.cli.consume.record_filter import LONGEST, make_filter, parse_condition
from millstream.cli.record_output import Decoded, ShownRecord
from millstream.errors import UsageError

DOCUMENT = {"user": {"id": 7, "name": "Ada"}, "status": 500, "path": "/cart/x", "ok": True, "none": None, "at": "2026-11-14T08:00:00Z"}


def record(value: bytes | None, key: bytes | None = None) -> ShownRecord:
    return ShownRecord("t", 0, 0, 0, key, value, [])


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("user.id == 7", True),
        ("user.id==7.0", True),
        ("user.id != 7", False),
        ("user.id != 8", True),
        ('user.id == "7"', False),
        ('user.name == "Ada"', True),
        ("user.name == Ada", True),
        ("status >= 500", True),
        ("status > 500", False),
        ("status < 1e3", True),
        ("path =~ ^/cart", True),
        ('path =~ "^/shop"', False),
        ("status =~ 5", False),
        ("ok == true", True),
        ("ok == 1", False),
        ("none == null", True),
        ("none", True),
        ("user.email", False),
        ("user.email != x", False),
        ("at >= 2026-11-14", True),
        ("at < 2026-11-14T08", False),
        ("user < 7", False),
        ('user == {"id": 7, "name": "Ada"}', True),
        ('user < {"id": 8}', False),
    ],
)
def test_condition_compares_like_with_like(condition: str, holds: bool) -> None:
    assert parse_condition(condition)(DOCUMENT) is holds


@pytest.mark.parametrize("value", [None, b"", b"no json", b"\xff", b"[" * 100_000, b"7"])
def test_value_that_is_no_such_document_does_not_match(value: bytes | None) -> None:
    test = make_filter(None, ["user.id != 9"])
    assert test is not None
    assert not test(record(value))


def test_all_conditions_have_to_hold_and_decoded_values_are_documents() -> None:
    test = make_filter("Ada", ["user.id == 7", "status > 400"])
    assert test is not None
    assert test(record(json.dumps(DOCUMENT).encode()))
    assert test(record(Decoded.of(DOCUMENT)))
    assert not test(record(Decoded.of(DOCUMENT | {"status": 200})))
    assert not test(record(Decoded.of(DOCUMENT | {"user": {"id": 7}})))


def test_grep_looks_at_keys_and_values_as_bytes() -> None:
    test = make_filter("a.c$", [])
    assert test is not None
    assert test(record(b"xabc"))
    assert test(record(None, b"abc"))
    assert not test(record(b"abcd", b"\xff"))
    assert make_filter(None, []) is None


def test_no_expression_takes_more_than_time_in_proportion() -> None:
    """Python's own would take for ever on these."""
    test = make_filter("(x+x+)+y", [])
    assert test is not None
    started = time.monotonic()
    assert not test(record(b"x" * 100_000))
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("text", ["(", "a{1000000}", "(?=look)", r"(a)\1", "x" * (LONGEST + 1), "((((a{100}){100}){100}){100})"])
def test_what_is_no_expression_or_too_large_a_one_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--grep"):
        make_filter(text, [])


@pytest.mark.parametrize("condition", ["", "== 7", "a b == 7", "a =~ ("])
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(UsageError):
        parse_condition(condition)
