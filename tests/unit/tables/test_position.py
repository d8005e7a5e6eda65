"""Offsets, times and edges, as people write them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from millstream.errors import UsageError
from millstream.offset import EARLIEST, LATEST
from millstream.tables.position import Point, check_order, parse_position

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
NOON_MS = 1_794_830_400_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("earliest", Point(EARLIEST)),
        (" Latest ", Point(LATEST)),
        (0, Point(0, is_offset=True)),
        (2**63 - 1, Point(2**63 - 1, is_offset=True)),
        (NOW, Point(NOON_MS)),
        (datetime(2026, 11, 16, 12), Point(NOON_MS)),  # noqa: DTZ001 -- UTC is meant
        (datetime(2026, 11, 16, 13, tzinfo=timezone(timedelta(hours=1))), Point(NOON_MS)),
        ("2026-11-16T13:00:00+01:00", Point(NOON_MS)),
        ("2026-11-16", Point(NOON_MS - 12 * 3_600_000)),
        (timedelta(hours=1), Point(NOON_MS - 3_600_000)),
        (timedelta(), Point(NOON_MS)),
        (datetime(1969, 12, 31, tzinfo=UTC), Point(EARLIEST)),
        (datetime(1970, 1, 1, 0, 0, 0, 1999, tzinfo=UTC), Point(1)),
        ({0: 5, 1: "latest"}, {0: Point(5, is_offset=True), 1: Point(LATEST)}),
    ],
)
def test_a_position_is_read(given: Any, expected: object) -> None:
    assert parse_position("start", given, now=NOW) == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (-1, "start: -1 is no offset; for the edges write 'earliest' or 'latest'"),
        (2**63, "is no offset"),
        (True, "start: True is no offset, no time"),
        (1.5, "start: 1.5 is no offset"),
        (None, "start: None is no offset"),
        ("yesterday", "start: 'yesterday' is neither 'earliest' nor 'latest' nor a time"),
        (timedelta(hours=-1), "is negative; a timedelta says how long ago"),
        ({}, "start: it is empty"),
        ({0: "soon"}, r"start\[0\]: 'soon' is neither"),
        ({-1: 0}, "start: -1 is no partition"),
        ({"0": 0}, "start: '0' is no partition"),
    ],
)
def test_what_is_no_position_is_said(given: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_position("start", given, now=NOW)


@pytest.mark.parametrize(
    ("start", "end", "is_right"),
    [
        (5, 5, True),
        (5, 4, False),
        (5, "latest", True),
        ("latest", "earliest", True),
        (NOW, NOW - timedelta(seconds=1), False),
        (NOW, 5, True),
        ({0: 5, 1: 7}, 6, False),
        ({0: 5, 1: 7}, {0: 6, 1: 8}, True),
        ({0: 5}, {1: 3}, True),
    ],
)
def test_what_is_backwards_is_known_before_a_broker_is_asked(start: Any, end: Any, is_right: bool) -> None:
    points = parse_position("start", start, now=NOW), parse_position("end", end, now=NOW)
    if is_right:
        check_order(*points)
    else:
        with pytest.raises(UsageError, match="start is after end"):
            check_order(*points)
