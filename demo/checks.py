"""The checks: sentences that hold or do not, each decided by comparing what was found with what was computed from the events."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from demo.abuse import METRICS
from demo.abuse import TIER as ABUSE_TIER
from demo.events import PAGE_VIEWS, SITE_TOPICS
from demo.expectation import Expectation
from demo.observation import Observation, Tier
from demo.services import LAKE_TIER, MIRROR_TIER
from demo.traffic import TIER as WEBSITE_TIER

BROKER_TIER: Final = "broker"
_SHOWN: Final = 3
Place = TypeVar("Place", bound=Hashable)
Row = TypeVar("Row", bound=tuple[object, ...])


class Check(NamedTuple):
    """A sentence, whether it holds, and if not, what was found instead."""

    sentence: str
    holds: bool
    found: str = ""


def check_all(expected: Expectation, found: Observation) -> list[Check]:
    """Every check, in the order of the way that messages take."""
    return [
        check_broker(expected, found),
        check_mirror(found),
        *check_audit(expected, found.tiers),
        check_lake(expected, found),
        check_schema_change(expected, found),
        check_windows(expected, found),
        check_join(expected, found),
        check_alerts(expected, found),
        check_metrics(expected, found),
    ]


def check_broker(expected: Expectation, found: Observation) -> Check:
    """Nothing that was acknowledged is lost, and retries wrote nothing twice."""
    wrong = differing({topic: found.live[topic] for topic in SITE_TOPICS}, expected.sent)
    return Check("The broker that was killed has every message that was sent, and none twice", not wrong, wrong)


def check_mirror(found: Observation) -> Check:
    """Both brokers have the same number of messages of each topic."""
    wrong = differing(found.offline, found.live)
    return Check("The offline broker has a copy of every topic, message for message", not wrong, wrong)


def check_audit(expected: Expectation, found: Sequence[Tier]) -> Iterator[Check]:
    """Every tier has every message of every ten minutes."""
    for topic in SITE_TOPICS:
        tiers = [tier for tier in found if tier.topic == topic]
        wanted = sorted([WEBSITE_TIER, BROKER_TIER, MIRROR_TIER, BROKER_TIER, LAKE_TIER] + [ABUSE_TIER] * (topic == PAGE_VIEWS))
        wrong = [_said(tier) for tier in tiers if not tier.is_complete or tier.messages != expected.sent[topic]]
        if sorted(tier.tier for tier in tiers) != wanted:
            wrong.append(f"tiers {', '.join(sorted(tier.tier for tier in tiers))} instead of {', '.join(wanted)}")
        yield Check(f"The audit says that {topic} is complete, at each of {len(wanted)} tiers", not wrong, "; ".join(wrong))


def check_lake(expected: Expectation, found: Observation) -> Check:
    """Each message is a row once, with the fields that it was sent with."""
    wrong = "; ".join(filter(None, (_difference(topic, found.lake[topic], rows) for topic, rows in expected.lake.items())))
    return Check("Every message is a row of the lake, once, with the fields that it was sent with", not wrong, wrong)


def check_schema_change(expected: Expectation, found: Observation) -> Check:
    """The new field is a column."""
    counted, wanted = (_devices(rows[PAGE_VIEWS]) for rows in (found.lake, expected.lake))
    wrong = differing(counted, wanted)
    sentence = "The field that the schema got on the way is a column of the table, filled from then on"
    return Check(sentence, not wrong and len(wanted) > 1, wrong)


def check_windows(expected: Expectation, found: Observation) -> Check:
    """Views per page and ten minutes."""
    wrong = differing(found.windows, expected.windows)
    return Check("Views per page and ten minutes are exact: late events are in their window, repeated ones count once", not wrong, wrong)


def check_join(expected: Expectation, found: Observation) -> Check:
    """Views with their clicks."""
    wrong = _difference("views with clicks", found.clicked, expected.clicked)
    return Check("Every view is joined with the clicks of the ten minutes after it, or with none", not wrong, wrong)


def check_alerts(expected: Expectation, found: Observation) -> Check:
    """The robots."""
    wrong = differing(Counter(found.alerts), Counter(expected.alerts))
    return Check(f"The abuse service found exactly the {len(expected.alerts)} robots", not wrong, wrong)


def check_metrics(expected: Expectation, found: Observation) -> Check:
    """What the service says of itself is so."""
    said = {name: found.metrics.get(name) for name in ("messages", "alerts")}
    wrong = differing(said, {"messages": expected.sent[PAGE_VIEWS], "alerts": len(expected.alerts)})
    if not found.offline[METRICS]:
        wrong = f"{METRICS} is empty at the offline broker"
    return Check("Its operational metrics are a topic at both brokers, and say the same", not wrong, wrong)


def check_exit_codes(codes: Mapping[str, int | None]) -> Check:
    """Whatever was stopped has ended in order."""
    wrong = ", ".join(f"{name}: {code}" for name, code in codes.items() if code != 0)
    return Check("Every process ended in order, with exit code 0", not wrong, wrong)


def differing(found: Mapping[Place, object], wanted: Mapping[Place, object]) -> str:
    """Where two mappings differ: a few places, and how many more there are; empty where they do not."""
    places = [place for place in dict.fromkeys((*found, *wanted)) if found.get(place) != wanted.get(place)]
    shown = [f"{place}: {found.get(place)} instead of {wanted.get(place)}" for place in places[:_SHOWN]]
    return "; ".join(shown + [f"and {len(places) - _SHOWN} more"] * (len(places) > _SHOWN))


def _difference(what: str, found: Counter[Row], wanted: Counter[Row]) -> str:
    missing, surplus = wanted - found, found - wanted
    if not missing and not surplus:
        return ""
    example = next(iter(missing or surplus))
    return f"{what}: {missing.total()} missing, {surplus.total()} too many, such as {example}"


def _devices(rows: Counter[tuple[object, ...]]) -> Counter[object]:
    counted: Counter[object] = Counter()
    for row, times in rows.items():
        counted[row[-1]] += times
    return counted


def _said(tier: Tier) -> str:
    return f"{tier.tier}: {tier.messages} messages, {tier.missing} missing, {tier.surplus} surplus ({', '.join(sorted(tier.verdicts))})"
