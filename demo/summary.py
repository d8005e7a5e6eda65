"""What came out of it, for people: how many messages got where, how complete, what was looked at most, and how quickly."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich import box
from rich.table import Table

from demo.checks import BROKER_TIER, Check
from demo.events import SITE_TOPICS
from demo.narrator import Narrator
from demo.observation import Observation, Tier
from demo.traffic import TIER as WEBSITE_TIER

_TOP_PAGES = 8
_BAR = 24
_P99 = 99


def show_summary(narrator: Narrator, found: Observation, sent: Mapping[str, int]) -> None:
    """The tables and the delay."""
    narrator.show(messages_table(found, sent))
    narrator.show(completeness_table(found.tiers))
    narrator.show(pages_table(found))
    median, late = delay_seconds(found)
    narrator.say(f"From being sent to being a row of the lake: {median:.1f} s for half of the messages, {late:.1f} s for 99 of 100.")
    narrator.say("(The load commits every second. The longest waits are those of messages that were sent while the broker was dead.)")


def show_checks(narrator: Narrator, checks: Sequence[Check]) -> None:
    """A line for each."""
    for check in checks:
        mark = "[green]ok    [/green]" if check.holds else "[red]NOT ok[/red]"
        narrator.show(f"   {mark} {check.sentence}")
        if not check.holds:
            narrator.say(f"          {check.found}")


def messages_table(found: Observation, sent: Mapping[str, int]) -> Table:
    """How many messages of each topic are where."""
    table = _table("Messages", "topic", "sent", "live broker", "mirrored", "rows in the lake")
    for topic in SITE_TOPICS:
        figures = (sent[topic], found.live[topic], found.offline[topic], found.lake[topic].total())
        table.add_row(topic, *(f"{figure:,}" for figure in figures))
    return table


def completeness_table(tiers: Sequence[Tier]) -> Table:
    """What the audit says: a line for each tier, a column for each topic."""
    table = _table("Completeness, by the audit", "tier", *SITE_TOPICS)
    places = {tier.topic: tier.cluster for tier in tiers if tier.tier == WEBSITE_TIER}
    cells: dict[str, dict[str, str]] = {}
    for tier in tiers:
        cells.setdefault(_tier_name(tier, places.get(tier.topic)), {})[tier.topic] = f"{tier.completeness:.3%}"
    for name, found in cells.items():
        table.add_row(name, *(found.get(topic, "-") for topic in SITE_TOPICS))
    return table


def pages_table(found: Observation) -> Table:
    """The pages that were looked at most, and how many of the views led to a click."""
    table = _table("Top pages", "page", "views", "click-through", "")
    views = views_by_page(found)
    shares = click_through(found)
    most = max(views.values(), default=1)
    for page, count in views.most_common(_TOP_PAGES):
        table.add_row(page, f"{count:,}", f"{shares.get(page, 0):.1%}", "█" * max(round(count / most * _BAR), 1))
    table.columns[-1].justify = "left"
    return table


def views_by_page(found: Observation) -> Counter[str]:
    """Views of each page, added up from the windows."""
    counted: Counter[str] = Counter()
    for (_, page), result in found.windows.items():
        counted[page] += result.views
    return counted


def click_through(found: Observation) -> dict[str, float]:
    """The share of views of each page that led to a click within ten minutes, from the join."""
    clicked: Counter[str] = Counter()
    viewed: Counter[str] = Counter()
    for view, has_click in _views(found):
        viewed[found.pages[view]] += 1
        clicked[found.pages[view]] += has_click
    return {page: clicked[page] / count for page, count in viewed.items()}


def delay_seconds(found: Observation) -> tuple[float, float]:
    """The median of the delays to the table, and the 99th percentile."""
    if not len(found.delays_ms):
        return 0.0, 0.0
    median, late = np.percentile(found.delays_ms, [50, _P99]) / 1000
    return float(median), float(late)


def _views(found: Observation) -> Iterator[tuple[str, bool]]:
    """Each view once, and whether it has a click."""
    yield from {view: click is not None for view, click in found.clicked}.items()


def _tier_name(tier: Tier, live_cluster: str | None) -> str:
    if tier.tier == BROKER_TIER:
        return "live broker" if tier.cluster == live_cluster else "offline broker"
    return f"{tier.tier} ({tier.kind})"


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table
