"""Where the marks of a picture's axes are: at round values and at round times, a handful of each."""

from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Final

MOST_TICKS: Final = 9
_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_TIME_STEPS: Final = (
    1, 10, 100, _SECOND, 2 * _SECOND, 5 * _SECOND, 10 * _SECOND, 30 * _SECOND, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE,
    15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 28 * _DAY, 91 * _DAY,
    364 * _DAY, 3640 * _DAY,
)  # fmt: skip


def value_ticks(lowest: float, highest: float) -> list[float]:
    """Round values from at or below the lowest to at or above the highest: steps of 1, 2 or 5 and zeros."""
    span = highest - lowest
    if not span:
        return [lowest, lowest + 1]
    power = 10.0 ** floor(log10(span / (MOST_TICKS - 2)))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= MOST_TICKS - 2)
    first, last = floor(lowest / step), ceil(highest / step)
    return [number * step for number in range(first, last + 1)]


def time_ticks(first_ms: int, last_ms: int) -> list[int]:
    """Round times within these two, in ms since 1970; the first of the two where there is none."""
    step = next((step for step in _TIME_STEPS if (last_ms - first_ms) / step < MOST_TICKS), _TIME_STEPS[-1])
    return list(range(-(-first_ms // step) * step, last_ms + 1, step)) or [first_ms]


def time_labels(ticks: list[int]) -> list[str]:
    """The times as short as they can be: the date where it changes, seconds where they are not all zero."""
    moments = [datetime.fromtimestamp(tick / 1000, UTC) for tick in ticks]
    if all(tick % _DAY == 0 for tick in ticks) and len(ticks) > 1:
        return [moment.strftime("%Y-%m-%d") for moment in moments]
    clock = "%H:%M" if all(tick % _MINUTE == 0 for tick in ticks) else "%H:%M:%S"
    labels = []
    for number, moment in enumerate(moments):
        is_new_day = number == 0 or moment.date() != moments[number - 1].date()
        labels.append(moment.strftime(f"%Y-%m-%d {clock}" if is_new_day else clock))
    return labels
