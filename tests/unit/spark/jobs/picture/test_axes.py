"""Marks of axes are at round places, whatever the figures."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.jobs.picture.axes import MOST_TICKS, time_labels, time_ticks, value_ticks

NUMBERS = st.floats(-1e15, 1e15, allow_nan=False).filter(lambda number: number == 0 or abs(number) > 1e-9)


def ms(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]  # year, month, ...


@pytest.mark.parametrize(
    ("lowest", "highest", "ticks"),
    [
        (0, 124, [0, 20, 40, 60, 80, 100, 120, 140]),
        (0, 0, [0, 1]),
        (-3, 7, [-4, -2, 0, 2, 4, 6, 8]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_values_are_marked_at_ones_twos_and_fives(lowest: float, highest: float, ticks: list[float]) -> None:
    assert value_ticks(lowest, highest) == pytest.approx(ticks)


@given(NUMBERS, NUMBERS)
def test_marks_are_few_and_enclose_all_values(one: float, other: float) -> None:
    lowest, highest = min(0.0, one, other), max(0.0, one, other)
    ticks = value_ticks(lowest, highest)
    assert 2 <= len(ticks) <= MOST_TICKS + 1
    assert ticks[0] <= lowest
    assert ticks[-1] >= highest


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 400_000_000_000))
def test_times_are_few_and_within_the_picture(first: int, span: int) -> None:
    ticks = time_ticks(first, first + span)
    assert 1 <= len(ticks) <= MOST_TICKS + 1
    assert all(first <= tick <= first + span for tick in ticks)
    assert len(time_labels(ticks)) == len(ticks)


def test_the_date_is_said_where_it_changes() -> None:
    ticks = time_ticks(ms(2026, 1, 31, 21, 10), ms(2026, 2, 1, 3))
    assert time_labels(ticks) == ["2026-01-31 22:00", "23:00", "2026-02-01 00:00", "01:00", "02:00", "03:00"]
    assert time_labels(time_ticks(ms(2026, 1, 31), ms(2026, 2, 5))) == [
        "2026-01-31",
        "2026-02-01",
        "2026-02-02",
        "2026-02-03",
        "2026-02-04",
        "2026-02-05",
    ]


def test_one_moment_has_one_label() -> None:
    assert time_labels(time_ticks(ms(2026, 1, 31, 12, 0, 7), ms(2026, 1, 31, 12, 0, 7))) == ["2026-01-31 12:00:07"]
