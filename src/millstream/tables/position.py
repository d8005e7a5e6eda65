"""Where a scan begins and ends, as a person says it.

    "earliest", "latest"                       the edges of the partition
    1500                                       an offset
    datetime(2026, 11, 16, 8)                  the first record of that time or later; UTC, unless it has a time zone
    "2026-11-16T08:00:00+01:00"                the same as text
    timedelta(hours=1)                         the same, so long before now
    {0: 1500, 1: "earliest"}                   one of these for each partition

A time is looked up by the broker when the scan reads. One that is later than every record is the end of the partition.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Final, NamedTuple, SupportsIndex

from millstream.errors import UsageError
from millstream.offset import EARLIEST, LATEST

OnePosition = SupportsIndex | str | datetime | timedelta
Position = OnePosition | Mapping[int, OnePosition]

_EDGES: Final = {"earliest": EARLIEST, "latest": LATEST}
_LARGEST_OFFSET: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Point(NamedTuple):
    """An offset, or what the broker is asked for it: a time in milliseconds, or an edge."""

    number: int
    is_offset: bool = False


Points = Point | Mapping[int, Point]


def parse_position(name: str, given: Position, *, now: datetime) -> Points:
    """The position that is called `name`; `UsageError` says what it may be."""
    if isinstance(given, Mapping):
        if not given:
            raise UsageError(f"{name}: it is empty; name each partition, as in {{0: 1500}}")
        return {_partition(name, number): _parse_one(f"{name}[{number}]", each, now) for number, each in given.items()}
    return _parse_one(name, given, now)


def check_order(start: Points, end: Points) -> None:
    """Refuse what is known to be backwards before any broker is asked."""
    numbers = {number for points in (start, end) if isinstance(points, Mapping) for number in points} or {0}
    for number in numbers:
        first, last = point_of(start, number), point_of(end, number)
        if first is None or last is None or first.is_offset != last.is_offset or min(first.number, last.number) < 0:
            continue
        if first.number > last.number:
            unit = "offset" if first.is_offset else "time (ms since 1970)"
            raise UsageError(f"start is after end: {unit} {first.number} and {last.number}")


def point_of(points: Points, partition: int) -> Point | None:
    """What holds for one partition; None if it is not named."""
    return points.get(partition) if isinstance(points, Mapping) else points


def _parse_one(name: str, given: OnePosition, now: datetime) -> Point:
    if isinstance(given, str):
        edge = _EDGES.get(given.strip().lower())
        return Point(edge) if edge is not None else _at(_parse_time(name, given))
    if isinstance(given, datetime):
        return _at(given)
    if isinstance(given, timedelta):
        if given < timedelta():
            raise UsageError(f"{name}: {given} is negative; a timedelta says how long ago, as in timedelta(hours=1)")
        return _at(now - given)
    if isinstance(given, bool) or not isinstance(given, SupportsIndex):
        raise UsageError(f"{name}: {given!r} is no offset, no time, and neither 'earliest' nor 'latest'")
    offset = index(given)
    if not 0 <= offset <= _LARGEST_OFFSET:
        raise UsageError(f"{name}: {offset} is no offset; for the edges write 'earliest' or 'latest'")
    return Point(offset, is_offset=True)


def _parse_time(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{name}: {text!r} is neither 'earliest' nor 'latest' nor a time as 2026-11-16T08:00:00+01:00") from None


def _at(moment: datetime) -> Point:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    milliseconds = (aware - _EPOCH) // timedelta(milliseconds=1)
    # Negative numbers are edges to a broker, and nothing is older than 1970.
    return Point(milliseconds) if milliseconds >= 0 else Point(EARLIEST)


def _partition(name: str, number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, SupportsIndex) or index(number) < 0:
        raise UsageError(f"{name}: {number!r} is no partition; as in {{0: 1500, 1: 'earliest'}}")
    return index(number)
