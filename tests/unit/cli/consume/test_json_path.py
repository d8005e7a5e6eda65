from typing import Any

import pytest

from millstream.cli.consume.json_path import MISSING, parse_path
from millstream.errors import UsageError

DOCUMENT: dict[str, Any] = {"user": {"id": 7, "a name": {"x": None}}, "items": [{"price": 1}, {"price": 2}], "a-b": 1}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("user.id", 7),
        ("$.user.id", 7),
        ("$", DOCUMENT),
        ("items[0].price", 1),
        ("items[-1].price", 2),
        ("$.items[1]", {"price": 2}),
        ('user["a name"].x', None),
        ('["user"].id', 7),
        ("a-b", 1),
        ("user.name", MISSING),
        ("user.id.x", MISSING),
        ("items[2]", MISSING),
        ("items.price", MISSING),
        ("user[0]", MISSING),
    ],
)
def test_path_finds_what_is_there(path: str, found: object) -> None:
    assert parse_path(path).find(DOCUMENT) is found or parse_path(path).find(DOCUMENT) == found


@pytest.mark.parametrize("path", ["a b", "a[x]", "a..b", "a[", 'a["b', "a[0]b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="is no path"):
        parse_path(path)
