"""What there is in the end, read from topics, tables and the audit; nothing here knows what there should be."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from demo.abuse import ALERTS, METRICS
from demo.events import SITE_TOPICS
from demo.expectation import LakeRow, WindowResult
from demo.jobs import CLICKED_TABLE, WINDOWS_TOPIC
from demo.lake import Lake
from demo.services import Services
from millstream import read_table


class Tier(NamedTuple):
    """What the audit says of a tier of a topic, all buckets together."""

    topic: str
    tier: str
    kind: str
    cluster: str
    messages: int
    missing: int
    surplus: int
    verdicts: frozenset[str]

    @property
    def is_complete(self) -> bool:
        """Whether all that the tier before had is there, and nothing else."""
        return self.verdicts == {"complete"}

    @property
    def completeness(self) -> float:
        """The share that is there of what should be."""
        return self.messages / (self.messages + self.missing) if self.messages else 0.0


@dataclass(frozen=True)
class Observation:
    """What was found."""

    live: Mapping[str, int]
    """Messages of each topic at the live broker."""
    offline: Mapping[str, int]
    """And at the offline one."""
    lake: Mapping[str, Counter[LakeRow]]
    windows: Mapping[tuple[int, str], WindowResult]
    clicked: Counter[tuple[str, str | None]]
    pages: Mapping[str, str]
    """The page of each view."""
    alerts: list[tuple[str, int]]
    metrics: Mapping[str, Any]
    """What the abuse service said last."""
    tiers: list[Tier]
    delays_ms: "np.typing.NDArray[np.int64]"


def observe(services: Services, *, since_ms: int) -> Observation:
    """Read everything back; the delays are those of messages that were sent from `since_ms` on."""
    lake = Lake(services.lake)
    clicked = lake.read(CLICKED_TABLE)
    views, clicks, pages = (clicked[name].to_pylist() for name in ("view", "click", "page"))
    return Observation(
        live=services.ends(services.live),
        offline=services.ends(services.offline),
        lake={topic: lake.rows(topic) for topic in SITE_TOPICS},
        windows=read_windows(services.offline),
        clicked=Counter(zip(views, clicks, strict=True)),
        pages=dict(zip(views, pages, strict=True)),
        alerts=[(alert["user"], alert["window_ms"]) for alert in read_json(ALERTS, services.live)],
        metrics=last_metrics(services.live),
        tiers=tiers_of(services.audit_rows()),
        delays_ms=lake.delays_ms(since_ms=since_ms),
    )


def read_json(topic: str, brokers: str) -> list[Any]:
    """The values of a topic of JSON."""
    values = read_table(topic, brokers=brokers, columns=["value"], value_format="string", flatten=False)["value"].to_pylist()
    return [json.loads(value) for value in values if value is not None]


def last_metrics(brokers: str) -> Mapping[str, Any]:
    """What the abuse service said last of itself; nothing at first."""
    return (read_json(METRICS, brokers) or [{}])[-1]  # type: ignore[no-any-return]


def read_windows(brokers: str) -> dict[tuple[int, str], WindowResult]:
    """The results of the windows job."""
    return {
        (round(datetime.fromisoformat(result["window_start"]).timestamp() * 1000), result["page"]): WindowResult(
            result["views"], tuple((one["value"], one["count"]) for one in result["regulars"])
        )
        for result in read_json(WINDOWS_TOPIC, brokers)
    }


def tiers_of(rows: list[dict[str, Any]]) -> list[Tier]:
    """The rows of the audit, summed over time, in their order."""
    found: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["topic"], row["tier"], row["kind"], row["cluster"]), []).append(row)
    return [
        Tier(
            *place,
            sum(row["count"] for row in some),
            sum(row["missing"] for row in some),
            sum(row["surplus"] for row in some),
            frozenset(row["verdict"] for row in some),
        )
        for place, some in found.items()
    ]
