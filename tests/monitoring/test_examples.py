"""The board and the alert rules in `examples/monitoring` speak of metrics that there are."""

import json
import re
from pathlib import Path

import pytest

from millstream.monitoring.families import FAMILIES, PROCESS_FAMILIES

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "monitoring"
PUBLISHED = FAMILIES.keys() | PROCESS_FAMILIES.keys() | {"up"}
"""With the one that Prometheus makes itself."""
HISTOGRAM_ENDS = re.compile(r"_(bucket|sum|count)$")
METRIC = re.compile(r"\b(?:kafka|millstream|process)_\w+|\bup\b")


def is_published(name: str) -> bool:
    return name in PUBLISHED or HISTOGRAM_ENDS.sub("", name) in PUBLISHED


def board_queries() -> list[str]:
    board = json.loads((EXAMPLES / "grafana-board.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return queries + [variable["definition"] for variable in board["templating"]["list"] if "definition" in variable]


def rule_queries() -> list[str]:
    return re.findall(r"^ *expr: (.*)$", (EXAMPLES / "alerts.yml").read_text(), re.MULTILINE)


@pytest.mark.parametrize("query", [*board_queries(), *rule_queries()])
def test_query_names_published_metrics(query: str) -> None:
    named = METRIC.findall(query)
    assert named
    assert [name for name in named if not is_published(name)] == []


def test_board_has_no_two_panels_in_one_place() -> None:
    board = json.loads((EXAMPLES / "grafana-board.json").read_text())
    places = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24


def test_every_metric_is_documented() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    assert [name for name in PUBLISHED if f"`{name}`" not in text] == []
    named = re.findall(r"`((?:kafka|millstream|process)_[a-z_]+)`", text)
    assert [name for name in named if not is_published(name)] == []
