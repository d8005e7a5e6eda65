"""The results of a windows job as one page of HTML that needs nothing else: a line per key over time, and the figures below.

The lines are SVG, drawn here: the page has no script, loads nothing, and shows the same everywhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import isfinite, nan
from typing import Any, Final, NamedTuple

from millstream.errors import UsageError
from millstream.spark.jobs.picture.axes import time_labels, time_ticks, value_ticks

MOST_LINES: Final = 8
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf")
_SHOWN: Final = 80
_WIDTH, _HEIGHT = 960, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 30, 46
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><meta name="viewport" content="width=device-width">
<style>
body{{font:14px system-ui,sans-serif;margin:2em;color:#222;background:#fff;max-width:1000px}}h1{{font-size:1.4em}}
svg{{width:100%;height:auto}}svg text{{font-size:12px;fill:#666}}svg line{{stroke:#ddd}}
table{{border-collapse:collapse;margin-top:1.5em}}td,th{{padding:.2em .9em;text-align:left;border-bottom:1px solid #ddd}}
td.n,th.n{{text-align:right;font-variant-numeric:tabular-nums}}td span{{display:inline-block;width:.8em;height:.8em;margin-right:.5em}}
@media(prefers-color-scheme:dark){{body{{background:#181a1b;color:#ddd}}td,th{{border-color:#444}}svg line{{stroke:#333}}
svg text{{fill:#aaa}}}}
</style></head><body>
<h1>{title}</h1><p>{summary}</p>
{picture}
{figures}
</body></html>
"""


class Point(NamedTuple):
    """One result: when its window began and ended, in ms, its key as a text, and the figure."""

    start_ms: int
    end_ms: int
    key: str
    value: float


def points_of(results: Iterable[Mapping[str, Any]], *, keys: Sequence[str], measure: str) -> list[Point]:
    """Results as points, one for each window and key: of one that was written twice the last. What is no finite number is no point."""
    found = {}
    for result in results:
        try:
            start, end = _milliseconds(result["window_start"]), _milliseconds(result["window_end"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UsageError(f"there is something that is no result of windows: {str(result)[:_SHOWN]}") from None
        value = _number(measure, result.get(measure))
        if isfinite(value):
            key = " / ".join(str(result.get(name)) for name in keys) or "all"
            found[start, end, key] = Point(start, end, key, value)
    return sorted(found.values())


def results_page(points: Sequence[Point], *, title: str, keys: Sequence[str], measure: str) -> str:
    """The page."""
    lines: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        lines[point.key].append(point)
    drawn = dict(sorted(lines.items(), key=lambda item: (-max(point.value for point in item[1]), item[0]))[:MOST_LINES])
    summary = f"{measure} over time: {len(points):,} windows of {len(lines):,} keys"
    if len(lines) > len(drawn):
        summary += f"; the {len(drawn)} with the highest figures are shown"
    return _PAGE.format(
        title=escape(title),
        summary=escape(f"{summary}." if points else "There are no results yet."),
        picture=_picture(drawn, measure) if points else "",
        figures=_figures(drawn, ", ".join(keys) or "key") if points else "",
    )


def _picture(lines: Mapping[str, Sequence[Point]], measure: str) -> str:
    points = [point for some in lines.values() for point in some]
    first, last = min(point.start_ms for point in points), max(point.start_ms for point in points)
    values = value_ticks(min(0.0, *(point.value for point in points)), max(0.0, *(point.value for point in points)))

    def across(moment_ms: int) -> float:
        # A single moment is in the middle.
        share = (moment_ms - first) / (last - first) if last > first else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def height(value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - values[0]) / (values[-1] - values[0]) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(measure)} over time">']
    parts.append(f'<text x="{_LEFT}" y="14">{escape(measure)}</text>')
    for value in values:
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height(value):.1f}" y2="{height(value):.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{height(value) + 4:.1f}" text-anchor="end">{_figure(value)}</text>')
    moments = time_ticks(first, last)
    for moment, label in zip(moments, time_labels(moments), strict=True):
        x = across(moment)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{height(values[0]):.1f}" y2="{height(values[0]) + 5:.1f}"/>')
        parts.append(f'<text x="{min(max(x, _LEFT), _WIDTH - _RIGHT - 20):.1f}" y="{_HEIGHT - 24}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">beginning of the window, UTC</text>')
    for colour, (key, some) in zip(COLOURS, lines.items(), strict=False):
        # Also a single point can be seen: a line to itself with round ends.
        places = [f"{across(point.start_ms):.1f},{height(point.value):.1f}" for point in some]
        width = 2 if len(some) > 1 else 7
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round" stroke-linecap="round" '
            f'points="{" ".join(places if len(some) > 1 else places * 2)}"><title>{escape(key)}</title></polyline>'
        )
    return "".join([*parts, "</svg>"])


def _figures(lines: Mapping[str, Sequence[Point]], keys: str) -> str:
    head = f'<tr><th>{escape(keys)}<th class="n">windows<th class="n">highest<th class="n">last<th>last window</tr>'
    rows = (_row(colour, some) for colour, some in zip(COLOURS, lines.values(), strict=False))
    return f"<table>{head}{''.join(rows)}</table>"


def _row(colour: str, some: Sequence[Point]) -> str:
    last = some[-1]
    window = f"{_moment(last.start_ms)} to {_moment(last.end_ms)}"
    figures = (f"{len(some):,}", _figure(max(point.value for point in some)), _figure(last.value))
    numbers = "".join(f'<td class="n">{figure}' for figure in figures)
    return f'<tr><td><span style="background:{colour}"></span>{escape(last.key)}{numbers}<td>{window}</tr>'


def _number(measure: str, value: Any) -> float:
    """The figure of a result; NaN where there is none. JSON has NaN and infinities as texts that `float` knows."""
    try:
        return nan if value is None else float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{measure} is no figure that could be drawn: {str(value)[:_SHOWN]!r}. Choose another measure") from None


def _figure(value: float) -> str:
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _moment(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _milliseconds(moment: str | datetime) -> int:
    parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return round(parsed.timestamp() * 1000)
