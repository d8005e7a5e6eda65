"""Durations as people write them in a job file: `10 minutes`, `90 s`, `1 hour 30 minutes`."""

import re
from typing import Final

from millstream.errors import UsageError

_UNITS_MS: Final = {
    "ms": 1, "millisecond": 1,
    "s": 1_000, "sec": 1_000, "second": 1_000,
    "m": 60_000, "min": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000,
    "d": 86_400_000, "day": 86_400_000,
    "week": 7 * 86_400_000,
}  # fmt: skip
_PART: Final = re.compile(r"\s*([0-9]{1,12})\s*([a-z]+)\s*")
LONGEST_MS: Final = 3_660 * 86_400_000
"""Ten years: what is longer is a mistake in the unit."""


def parse_duration_ms(name: str, text: str, *, may_be_zero: bool = False) -> int:
    """The duration in milliseconds; the error names the setting that it belongs to."""
    parts = _PART.findall(text.lower())
    units = [_UNITS_MS.get(unit) or _UNITS_MS.get(unit.removesuffix("s")) for _, unit in parts]
    if not parts or None in units or _PART.sub("", text.lower()):
        raise UsageError(f"{name}: {text!r} is not a duration: write a number and ms, seconds, minutes, hours or days, as in '10 minutes'")
    total = sum(int(number) * (unit or 0) for (number, _), unit in zip(parts, units, strict=True))
    if not total and not may_be_zero:
        raise UsageError(f"{name}: {text!r} is no time at all: give a duration above zero")
    if total > LONGEST_MS:
        raise UsageError(f"{name}: {text!r} is longer than ten years: is the unit right?")
    return total


def duration_text(duration_ms: int) -> str:
    """The duration in the largest unit that divides it, as Spark and people read it."""
    for unit in ("day", "hour", "minute", "second"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            count = duration_ms // _UNITS_MS[unit]
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return f"{duration_ms} milliseconds"
