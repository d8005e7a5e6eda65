"""Contexts in front of a path become contexts of subjects."""

import pytest

from millstream.registry.api.app import without_context


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/subjects/a", "x=1", ("/subjects/a", "x=1")),
        ("/contexts", "", ("/contexts", "")),
        ("/contexts/.c", "", ("/contexts/.c", "")),
        ("/contexts/.c/subjects/a/versions/1", "deleted=true", ("/subjects/%3A.c%3Aa/versions/1", "deleted=true")),
        ("/contexts/c/subjects/a", "", ("/subjects/%3A.c%3Aa", "")),
        ("/contexts/:.c:/subjects/a%2Fb", "", ("/subjects/%3A.c%3Aa%2Fb", "")),
        ("/contexts/.c/subjects/:.d:a", "", ("/subjects/:.d:a", "")),
        ("/contexts/.c/subjects", "", ("/subjects", "subjectPrefix=%3A.c%3A")),
        ("/contexts/.c/subjects", "subjectPrefix=a", ("/subjects", "subjectPrefix=%3A.c%3Aa")),
        ("/contexts/.c/schemas/ids/1", "subject=a", ("/schemas/ids/1", "subject=%3A.c%3Aa")),
        ("/contexts/.c/schemas/ids/1", "subject=%3A.d%3A", ("/schemas/ids/1", "subject=%3A.d%3A")),
        ("/contexts/.c/schemas", "", ("/schemas", "subjectPrefix=%3A.c%3A")),
        ("/contexts/.c/config", "", ("/config/%3A.c%3A", "")),
        ("/contexts/.c/mode/a", "", ("/mode/%3A.c%3Aa", "")),
        ("/contexts/.c/compatibility/subjects/a/versions", "", ("/compatibility/subjects/%3A.c%3Aa/versions", "")),
        ("/contexts/.c/other", "", ("/contexts/.c/other", "")),
    ],
)
def test_the_context_moves_into_the_subject(path: str, query: str, expected: tuple[str, str]) -> None:
    assert without_context(path, query) == expected
