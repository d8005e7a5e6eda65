"""The page of results: what is in it, and that nothing has to be loaded for it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.picture.results_picture import MOST_LINES, Point, points_of, results_page

HOUR_MS = 3_600_000


def result(hour: int, page: str | None, views: int | None) -> dict[str, object]:
    start = datetime(2026, 1, 31, hour, tzinfo=UTC)
    return {"window_start": start.isoformat(), "window_end": start.replace(hour=hour + 1), "page": page, "views": views}


def test_results_become_points_and_one_that_was_written_twice_is_one() -> None:
    rows = [result(3, "/b", 5), result(2, "/a", 7), result(2, "/a", 7), result(4, "/a", None)]
    points = points_of(rows, keys=["page"], measure="views")
    assert [(point.key, point.value) for point in points] == [("/a", 7.0), ("/b", 5.0)]
    assert points[1].start_ms - points[0].start_ms == points[0].end_ms - points[0].start_ms == HOUR_MS


def test_without_a_key_there_is_one_line() -> None:
    assert {point.key for point in points_of([result(2, "/a", 1), result(3, "/b", 1)], keys=[], measure="views")} == {"all"}


def test_the_page_has_a_line_for_each_of_the_highest_keys_and_needs_nothing_else() -> None:
    points = [Point(hour * HOUR_MS, (hour + 1) * HOUR_MS, f"/page-{number}", number) for number in range(20) for hour in (0, 1)]
    page = results_page(points, title="views", keys=["page"], measure="views")
    assert page.count("<polyline") == MOST_LINES
    assert "/page-19" in page
    assert "/page-3<" not in page
    assert "40 windows of 20 keys; the 8 with the highest figures are shown." in page
    assert "http" not in page
    assert "<script" not in page


def test_keys_from_outside_cannot_write_into_the_page() -> None:
    page = results_page([Point(0, 1, "<script>alert(1)</script>", 1.5)], title="<b>", keys=["<i>"], measure="views")
    assert "<script" not in page
    assert "<i>" not in page
    assert "1.50" in page


def test_negative_figures_and_all_zero_can_be_drawn() -> None:
    assert "<polyline" in results_page([Point(0, 1, "a", -3.0), Point(5, 6, "a", -1.0)], title="t", keys=[], measure="m")
    assert "<polyline" in results_page([Point(0, 1, "a", 0.0)], title="t", keys=[], measure="m")


def test_no_results_are_said() -> None:
    assert "There are no results yet." in results_page([], title="t", keys=[], measure="m")


@pytest.mark.parametrize(
    "other", ["a text", 5, ["list"], {"page": "/"}, {"window_start": 3, "window_end": 4}, {"window_start": "x", "window_end": "y"}]
)
def test_what_is_no_result_is_said(other: Any) -> None:
    with pytest.raises(UsageError, match="there is something that is no result of windows: "):
        points_of([result(2, "/a", 1), other], keys=["page"], measure="views")


def test_what_is_no_finite_number_is_not_drawn() -> None:
    rows = [{**result(hour, "/a", None), "price": price} for hour, price in enumerate([1.5, "NaN", "Infinity", float("nan"), None])]
    points = points_of(rows, keys=["page"], measure="price")
    assert [point.value for point in points] == [1.5]
    assert "<polyline" in results_page(points, title="t", keys=["page"], measure="price")


@pytest.mark.parametrize("value", ["2026-01-31T12:00:00Z", datetime(2026, 1, 31, tzinfo=UTC), [1], "/page"])
def test_a_measure_that_is_no_figure_is_said(value: Any) -> None:
    with pytest.raises(UsageError, match="last is no figure that could be drawn: "):
        points_of([{**result(2, "/a", 1), "last": value}], keys=["page"], measure="last")
