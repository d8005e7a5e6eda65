"""What a windows job measures, as a job file writes it.

count                     messages
sum(COLUMN)               exact, also for doubles: see `windows`
min(COLUMN), max(COLUMN)
distinct(COLUMN)          how many different values, approximately; distinct(COLUMN, 0.01) for a relative error of 1 %
top(K, COLUMN)            the K most frequent values and how often each came
"""

import re
from dataclasses import dataclass
from typing import Final

from millstream.errors import UsageError
from millstream.spark.jobs.running.suggestion import did_you_mean

KINDS: Final = ("count", "sum", "min", "max", "distinct", "top")
FORMS: Final = "count, sum(COLUMN), min(COLUMN), max(COLUMN), distinct(COLUMN), top(K, COLUMN)"
DEFAULT_ERROR: Final = 0.02
LEAST_ERROR, MOST_ERROR = 0.005, 0.3
MOST_TOP: Final = 1_000
COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_CALL: Final = re.compile(r"\s*([A-Za-z_]+)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True, slots=True)
class Measure:
    """One column of the results: its name and how it is made."""

    name: str
    kind: str
    column: str | None = None
    k: int = 0
    error: float = 0.0


def parse_measure(name: str, text: str) -> Measure:
    """The measure that a text describes."""
    call = _CALL.fullmatch(text)
    if call is None:
        raise UsageError(f"[measures] {name}: {text!r} is no measure. There are: {FORMS}")
    kind = call[1].lower()
    if kind not in KINDS:
        raise UsageError(f"[measures] {name}: there is no measure {call[1]!r}.{did_you_mean(kind, KINDS)} There are: {FORMS}")
    arguments = [argument.strip() for argument in call[2].split(",")] if (call[2] or "").strip() else []
    if kind == "count":
        if arguments:
            raise UsageError(f"[measures] {name}: count takes no column, it counts messages: leave out others with `where`")
        return Measure(name, kind)
    if kind == "top":
        return _top(name, text, arguments)
    if kind == "distinct":
        return _distinct(name, text, arguments)
    return Measure(name, kind, _column(name, text, arguments))


def _top(name: str, text: str, arguments: list[str]) -> Measure:
    if len(arguments) != 2 or not arguments[0].isascii() or not arguments[0].isdigit() or not 0 < int(arguments[0]) <= MOST_TOP:
        raise UsageError(
            f"[measures] {name}: {text!r} is not understood: write top(K, COLUMN) with a K from 1 to {MOST_TOP}, as in top(10, page)"
        )
    return Measure(name, "top", _column(name, text, arguments[1:]), k=int(arguments[0]))


def _distinct(name: str, text: str, arguments: list[str]) -> Measure:
    error = DEFAULT_ERROR
    if len(arguments) == 2:
        try:
            error = float(arguments.pop())
        except ValueError:
            error = 0.0
        if not LEAST_ERROR <= error <= MOST_ERROR:
            raise UsageError(f"[measures] {name}: {text!r}: the relative error is a number from {LEAST_ERROR} to {MOST_ERROR}")
    return Measure(name, "distinct", _column(name, text, arguments), error=error)


def _column(name: str, text: str, arguments: list[str]) -> str:
    if len(arguments) != 1 or not COLUMN.fullmatch(arguments[0]):
        raise UsageError(
            f"[measures] {name}: {text!r} needs the name of one column, as in {text.partition('(')[0]}(page). "
            "What has to be computed first goes to [input.columns]"
        )
    return arguments[0]
