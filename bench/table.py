"""Results as a table: one row per metric with every peer's figure, the ratio, the bar and whether it was reached; also as markdown
and JSON.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from bench.case import Case, Metric
from bench.measure import median
from bench.runner import Results

COLUMNS = ("work", "metric", "Millstream", "Kafka 4.2", "ratio", "to reach", "verdict")
OURS, THEIRS = "millstream", "kafka"
STYLES = {"reached": "green", "NOT reached": "red"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; figures are None where a peer was not measured."""

    case: str
    title: str
    metric: str
    unit: str
    millstream: float | None
    kafka: float | None
    ratio: float | None
    bar: str
    verdict: str
    rounds: Mapping[str, Sequence[float]]

    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return (self.title, f"{self.metric}, {self.unit}", _figure(self.millstream), _figure(self.kafka), ratio, self.bar, self.verdict)


def build_rows(cases: Sequence[Case], results: Results, *, is_quick: bool) -> list[Row]:
    """All rows, in the order of the cases."""
    return [_row(case, metric, results=results, is_quick=is_quick) for case in cases for metric in case.metrics]


def _row(case: Case, metric: Metric, *, results: Results, is_quick: bool) -> Row:
    ours = _summary(results, case.name, metric=metric, peer=OURS)
    theirs = _summary(results, case.name, metric=metric, peer=THEIRS)
    ratio = ours / theirs if ours is not None and theirs else None
    return Row(
        case=case.name,
        title=case.title,
        metric=metric.name,
        unit=metric.unit,
        millstream=ours,
        kafka=theirs,
        ratio=ratio,
        bar=str(metric.bar) if metric.bar else "",
        verdict=_verdict(case, metric, results=results, ours=ours, ratio=ratio, is_quick=is_quick),
        rounds=results.values.get(case.name, {}).get(metric.name, {}),
    )


def _summary(results: Results, case: str, *, metric: Metric, peer: str) -> float | None:
    rounds = results.values.get(case, {}).get(metric.name, {}).get(peer)
    if not rounds:
        return None
    return max(rounds) if metric.summary == "max" else median(rounds)


def _verdict(case: Case, metric: Metric, *, results: Results, ours: float | None, ratio: float | None, is_quick: bool) -> str:
    if results.failures.get(case.name, {}).get(OURS):
        return "failed"
    if metric.bar is None:
        return ""
    if is_quick:
        # Loads too small for ticks of 10 ms, for memory and for a JVM to be warm: figures are shown but decide nothing.
        return "quick: none"
    measured = {"value": ours, "kafka": ratio, "case": None}[metric.bar.of]
    if metric.bar.of == "case":
        base = _summary(results, metric.bar.case, metric=metric, peer=OURS)
        measured = ours / base if ours is not None and base else None
    if measured is None:
        return "not measured"
    shown = f" ({measured:.2f})" if metric.bar.of == "case" else ""
    return ("reached" if metric.bar.is_reached(measured) else "NOT reached") + shown


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def render(rows: Sequence[Row], *, title: str) -> Table:
    """For a terminal."""
    table = Table(title=title, show_lines=False)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in COLUMNS[2:5] else "left")
    previous = ""
    for row in rows:
        title_cell, *others = row.cells()
        style = STYLES.get(row.verdict.split(" (")[0], "")
        table.add_row("" if row.title == previous else title_cell, *others[:-1], f"[{style}]{others[-1]}[/]" if style else others[-1])
        previous = row.title
    return table


def to_markdown(rows: Sequence[Row], *, title: str, about: Mapping[str, str], results: Results) -> str:
    """For a file."""
    lines = [f"# {title}", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|---|---|---:|---:|---:|---|---|"]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    failures = [f"- {case}, {peer}: {reason}" for case, peers in results.failures.items() for peer, reason in peers.items()]
    if failures:
        lines += ["", "Failed:", "", *failures]
    return "\n".join(lines) + "\n"


def save(rows: Sequence[Row], directory: Path, *, name: str, title: str, about: Mapping[str, str], results: Results) -> Path:
    """Write NAME.md and NAME.json; the path of the first."""
    directory.mkdir(parents=True, exist_ok=True)
    document = {"title": title, "about": about, "rows": [asdict(row) for row in rows], "failures": results.failures}
    (directory / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    path = directory / f"{name}.md"
    path.write_text(to_markdown(rows, title=title, about=about, results=results))
    return path
