"""Each check holds for what was expected, and says what is wrong with anything else."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from demo.abuse import ALERTS, METRICS
from demo.checks import check_all, check_exit_codes, differing
from demo.events import PAGE_VIEWS, SEARCHES, SITE_TOPICS
from demo.expectation import Expectation, WindowResult, expect
from demo.observation import Observation, Tier, tiers_of
from demo.site_activity import make_activity
from demo.summary import click_through, completeness_table, delay_seconds, views_by_page

EXPECTED = expect(make_activity(1_000, start_ms=1_700_006_400_000, seed=3))
LIVE, OFFLINE = "live-id", "offline-id"


def tiers(expected: Expectation) -> list[Tier]:
    """What the audit says when all is well."""
    kinds = [("website", "producer", LIVE), ("broker", "broker", LIVE), ("copy", "mirror", LIVE), ("broker", "broker", OFFLINE)]
    kinds += [("lake", "load", OFFLINE)]
    return [
        Tier(topic, *place, expected.sent[topic], 0, 0, frozenset({"complete"}))
        for topic in SITE_TOPICS
        for place in kinds + [("abuse", "consumer", LIVE)] * (topic == PAGE_VIEWS)
    ]


def all_is_well() -> Observation:
    counts = {**EXPECTED.sent, METRICS: 12, ALERTS: 3}
    return Observation(
        live=counts,
        offline=counts,
        lake=EXPECTED.lake,
        windows=EXPECTED.windows,
        clicked=EXPECTED.clicked,
        pages={str(row[0]): str(row[1]) for row in EXPECTED.lake[PAGE_VIEWS]},
        alerts=sorted(EXPECTED.alerts),
        metrics={"messages": EXPECTED.sent[PAGE_VIEWS], "alerts": len(EXPECTED.alerts)},
        tiers=tiers(EXPECTED),
        delays_ms=np.arange(1, 101, dtype=np.int64) * 10,
    )


def without_one(rows: "Counter[Any]") -> "Counter[Any]":
    return rows - Counter([next(iter(rows))])


def test_all_checks_hold_when_all_is_well() -> None:
    assert [check for check in check_all(EXPECTED, all_is_well()) if not check.holds] == []


@pytest.mark.parametrize(
    ("what", "sentence", "found"),
    [
        ({"live": {**all_is_well().live, SEARCHES: 0}}, "broker that was killed", "searches: 0 instead of"),
        ({"offline": {**all_is_well().offline, METRICS: 11}}, "copy of every topic", "service-metrics: 11 instead of 12"),
        ({"tiers": tiers(EXPECTED)[:-1]}, "audit says that searches", "tiers broker, broker, copy, website instead of"),
        ({"lake": {**EXPECTED.lake, SEARCHES: without_one(EXPECTED.lake[SEARCHES])}}, "row of the lake", "searches: 1 missing, 0 too many"),
        ({"windows": {**EXPECTED.windows, (0, "/none"): WindowResult(1, ())}}, "ten minutes are exact", "(0, '/none'): WindowResult"),
        ({"clicked": EXPECTED.clicked + Counter([("view-x", None)])}, "joined with the clicks", "0 missing, 1 too many"),
        ({"alerts": [*EXPECTED.alerts, ("ann", 0)]}, "robots", "('ann', 0): 1 instead of None"),
        ({"metrics": {}}, "operational metrics", "messages: None instead of"),
    ],
)
def test_a_check_says_what_is_wrong(what: dict[str, Any], sentence: str, found: str) -> None:
    broken = [check for check in check_all(EXPECTED, replace(all_is_well(), **what)) if not check.holds]
    [check] = [check for check in broken if sentence in check.sentence]
    assert found in check.found


def test_rows_with_another_device_fail_the_check_of_the_schema_change() -> None:
    rows = Counter({(*row[:-1], "unknown"): times for row, times in EXPECTED.lake[PAGE_VIEWS].items()})
    found = replace(all_is_well(), lake={**EXPECTED.lake, PAGE_VIEWS: rows})
    assert any("schema" in check.sentence and not check.holds for check in check_all(EXPECTED, found))


def test_a_tier_that_is_late_or_counts_less_fails_the_audit() -> None:
    for change in ({"verdicts": frozenset({"complete", "late"})}, {"messages": 1}):
        found = tiers(EXPECTED)
        found[0] = found[0]._replace(**change)
        [check] = [check for check in check_all(EXPECTED, replace(all_is_well(), tiers=found)) if not check.holds]
        assert "website" in check.found


def test_the_same_alert_twice_is_wrong() -> None:
    found = replace(all_is_well(), alerts=sorted(EXPECTED.alerts) * 2)
    assert sum(not check.holds for check in check_all(EXPECTED, found)) == 1


def test_an_exit_code_other_than_zero_is_named() -> None:
    assert check_exit_codes({"mirror": 0, "load": 0}).holds
    assert check_exit_codes({"mirror": 0, "load": 137}).found == "load: 137"


def test_a_few_differences_are_shown_and_the_others_counted() -> None:
    assert differing({"a": 1}, {"a": 1}) == ""
    assert differing(dict.fromkeys("abcde", 1), {}).endswith("and 2 more")


def test_rows_of_the_audit_are_added_up_by_tier() -> None:
    row = {"topic": "clicks", "tier": "lake", "kind": "load", "cluster": "x", "count": 3, "missing": 1, "surplus": 0, "verdict": "missing"}
    [tier] = tiers_of([row, {**row, "count": 4, "missing": 0, "verdict": "complete"}])
    assert (tier.messages, tier.missing, tier.is_complete, tier.completeness) == (7, 1, False, 7 / 8)


def test_the_summary_adds_up_windows_and_joined_views() -> None:
    found = replace(
        all_is_well(),
        windows={(0, "/"): WindowResult(2, ()), (600_000, "/"): WindowResult(3, ()), (0, "/feed"): WindowResult(1, ())},
        clicked=Counter([("v1", "c1"), ("v1", "c2"), ("v2", None), ("v3", None)]),
        pages={"v1": "/", "v2": "/", "v3": "/feed"},
    )
    assert views_by_page(found) == {"/": 5, "/feed": 1}
    assert click_through(found) == {"/": 0.5, "/feed": 0.0}
    assert delay_seconds(found) == pytest.approx((0.505, 0.9901))


def test_the_table_of_tiers_tells_the_two_brokers_apart() -> None:
    names = list(completeness_table(tiers(EXPECTED)).columns[0].cells)
    assert names == ["website (producer)", "live broker", "copy (mirror)", "offline broker", "lake (load)", "abuse (consumer)"]
