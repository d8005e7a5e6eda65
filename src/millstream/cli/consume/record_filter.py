"""Which records are shown: `--grep` looks for an expression in keys and values, `--where` compares a field of JSON values.

    user.id == 7      status >= 500      path =~ ^/cart      country != "CH"      error.code

Compared are numbers with numbers and text with text; a field that is not there, or is of another kind, does not match, whatever the
comparison. A path alone asks whether there is such a field. What is on the right is JSON if it can be, and otherwise text as it stands.

Expressions are RE2's, which take time in proportion to what they read, whatever they are, and a bounded amount of memory. Nothing of what a
user writes is run.
"""

import json
import operator
import re
from collections.abc import Callable
from typing import Any, Final, Protocol

from millstream.cli.consume.json_path import MISSING, JsonPath, parse_path
from millstream.cli.record_output import Decoded, ShownRecord
from millstream.errors import UsageError

LONGEST: Final = 1_000
"""Characters of an expression."""
MEMORY_BYTES: Final = 8 << 20
_CONDITION: Final = re.compile(r"(?P<path>(?:\"(?:\\.|[^\"\\])*\"|[^=!<>~\"])+?)\s*(?P<sign>==|!=|<=|>=|=~|<|>)\s*(?P<value>.*)", re.DOTALL)
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

RecordTest = Callable[[ShownRecord], bool]


class Expression(Protocol):
    """An expression of RE2's."""

    def search(self, text: bytes) -> object | None:
        """Where it is found first."""


def make_filter(grep: str | None, where: list[str]) -> RecordTest | None:
    """Whether a record passes all of these; None if every record does."""
    tests = ([] if grep is None else [_grep(grep)]) + ([_where(where)] if where else [])
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda record: all(test(record) for test in tests)


def _grep(text: str) -> RecordTest:
    search = compile_expression(text, "--grep").search

    def found(record: ShownRecord) -> bool:
        return (record.value is not None and search(record.value) is not None) or (
            record.key is not None and search(record.key) is not None
        )

    return found


def _where(conditions: list[str]) -> RecordTest:
    tests = [parse_condition(text) for text in conditions]

    def holds(record: ShownRecord) -> bool:
        document = _document(record.value)
        return document is not MISSING and all(test(document) for test in tests)

    return holds


def parse_condition(text: str) -> Callable[[Any], bool]:
    """Whether a JSON document fulfils a condition."""
    if not text.strip():
        raise UsageError("--where needs a condition, as user.id == 7.")
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        path = parse_path(text)
        return lambda document: path.find(document) is not MISSING
    path, sign = parse_path(match["path"]), match["sign"]
    if sign == "=~":
        expression = compile_expression(_text_of(match["value"]), "--where")
        return lambda document: _matches(expression, path.find(document))
    return _comparison(path, _COMPARISONS[sign], _literal(match["value"]))


def _comparison(path: JsonPath, compare: Callable[[Any, Any], bool], wanted: Any) -> Callable[[Any], bool]:
    kind = _kind(wanted)

    def holds(document: Any) -> bool:
        found = path.find(document)
        if found is MISSING or _kind(found) is not kind:
            return False
        try:
            return bool(compare(found, wanted))
        except TypeError:  # the order of two documents
            return False

    return holds


def _kind(value: Any) -> type:
    """JSON knows one kind of number, and true is none."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text_of(text: str) -> str:
    value = _literal(text)
    return value if isinstance(value, str) else text


def _matches(expression: Expression, found: Any) -> bool:
    return isinstance(found, str) and expression.search(found.encode()) is not None


def _document(value: bytes | None) -> Any:
    if isinstance(value, Decoded):
        return value.document
    if value is None:
        return MISSING
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return MISSING


def compile_expression(text: str, flag: str) -> Expression:
    """The expression; one that is too long, too large or none is a mistake of whoever gave it."""
    import re2

    if len(text) > LONGEST:
        raise UsageError(f"{flag}: an expression may have {LONGEST} characters, and this has {len(text)}.")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # groups that capture would keep RE2 from using its automaton
    options.max_mem = MEMORY_BYTES
    try:
        compiled: Expression = re2.compile(text.encode(), options)
    except re2.error as error:
        reason = error.args[0]
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise UsageError(f"{flag} {text!r} is no expression of RE2's: {said}.") from None
    return compiled
