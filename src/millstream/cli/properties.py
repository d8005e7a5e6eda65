"""Options as people write them: `name=value` on a command line, and files in the format of Java's properties.

Understood of that format: comments with `#` or `!`, `=` or `:` or white space between name and value, a backslash at the end of a line
that continues it, and the escapes for backslash, tab, newline and four hexadecimal digits. A name given twice in one file is a mistake
here, where Java silently takes the last. What is wrong is said by name and line, never by value: that may be a password.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from millstream.errors import UsageError

_LINE = re.compile(r"(?P<name>(?:\\.|[^\\\s=:])+)(?:\s*[=:]\s*|\s+|$)(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAME = re.compile(r"[\w.-]{0,40}")
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_assignment(text: str, flag: str) -> tuple[str, str]:
    """Name and value of a `NAME=VALUE` given with `flag`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{flag} {_beginning(text)}: expected NAME=VALUE.")
    return name, value


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """The options of `-X name=value -X ...`; the last of several with one name wins, as later flags do."""
    return {name.strip(): value.strip() for name, value in (parse_assignment(text, "-X") for text in assignments)}


def read_properties(path: Path) -> dict[str, str]:
    """The options in a file; raises `UsageError` naming file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read the options in {path}: {reason}") from None
    return parse_properties(text, name=str(path))


def parse_properties(text: str, *, name: str) -> dict[str, str]:
    """The options in the text of a file called `name`."""
    values: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        if match is None:
            raise UsageError(f"{name}, line {number}: expected name=value, found {_beginning(line)}")
        key = _unescape(match["name"])
        if key in values:
            raise UsageError(f"{name}, line {number}: {key} was already set above")
        values[key] = _unescape(match["value"]).rstrip()
    return values


def _beginning(text: str) -> str:
    """What of a malformed line may be shown: how its name begins."""
    found = _NAME.match(text)
    if found is None or not found[0]:
        return "no name"
    return found[0] if found[0] == text else f"{found[0]}..."


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Lines without comments, with continuations joined, each with the number of its first line."""
    pending, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        if not pending:
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield start, pending + line
        pending = ""
    if pending:
        yield start, pending


def _unescape(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _NAMED_ESCAPES.get(escape, escape)

    return _ESCAPE.sub(replaced, text)
