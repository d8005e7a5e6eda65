"""When the audit raises an alarm: a bucket that is over and stays under the threshold, or a tier that fell silent.

    raised      something is wrong
    changed     what is known of it became more exact (partition and offsets), or other numbers; at most once a minute
    resolved    it is well again

Each is said once. A tier that is alive and only behind (`late`) gets a minute to catch up first. What nothing is known of any more, because
its bucket went to the archive or its topic to another auditor, is forgotten without a word (`forget_unseen`).
"""

from collections import Counter as Multiset
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from millstream.audit.ledger import Ledger
from millstream.audit.reports.report import Kind, bucket_text
from millstream.audit.reports.reporter import Reporter
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import DEFAULT_THRESHOLD, Place, Row, Verdict

INCOMPLETE: Final = "incomplete"
SILENT: Final = "silent"
MAX_RAISED: Final = 10_000
LATE_PATIENCE_MS: Final = 60_000
CHANGE_PAUSE_MS: Final = 60_000
_BAD: Final = frozenset({Verdict.MISSING, Verdict.LATE})

AlarmKey: TypeAlias = tuple[str, str, Tier, int | None]
"""Kind, topic, tier and bucket."""


class AlarmState(StrEnum):
    """What is new about an alarm."""

    RAISED = "raised"
    CHANGED = "changed"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong, or that is well again."""

    kind: str
    topic: str
    tier: Tier
    bucket: int | None
    message: str
    state: AlarmState = AlarmState.RAISED
    verdict: Verdict | None = None
    expected: int = 0
    missing: int = 0
    losses: tuple[Place, ...] = ()

    @property
    def key(self) -> AlarmKey:
        """What it is about; the same alarm has the same key in every state."""
        return self.kind, self.topic, self.tier, self.bucket

    @property
    def is_located(self) -> bool:
        """Whether partition and offsets of every loss are known."""
        return all(place.ranges for place in self.losses)


@dataclass(slots=True)
class _Raised:
    alarm: Alarm
    """As it was said last."""
    said_ms: int


class AlarmBook:
    """Which alarms are raised; says what is new."""

    def __init__(self, *, threshold: float = DEFAULT_THRESHOLD) -> None:
        self._threshold = threshold
        self._raised: dict[AlarmKey, _Raised] = {}
        self._late_since: dict[AlarmKey, int] = {}
        self._seen: set[AlarmKey] = set()

    def __len__(self) -> int:
        return len(self._raised)

    def counts(self) -> "Multiset[tuple[str, str, str]]":
        """How many alarms are raised, by kind, topic and name of the tier."""
        return Multiset((one.alarm.kind, one.alarm.topic, one.alarm.tier.name) for one in self._raised.values())

    def note_rows(self, rows: Iterable[Row], now_ms: int) -> list[Alarm]:
        """Alarms of buckets that are over; while a bucket is open again, because more was reported of it, nothing is said of it."""
        found = []
        for row in rows:
            alarm = _alarm_of(row)
            if row.verdict is Verdict.OPEN:
                self._seen.add(alarm.key)
                continue
            is_bad = row.verdict in _BAD and row.completeness < self._threshold
            found += self._note(alarm, is_bad=is_bad and not self._is_patient(alarm, now_ms), now_ms=now_ms)
            if not is_bad:
                self._late_since.pop(alarm.key, None)
        return found

    def note_silence(self, ledger: Ledger, now_ms: int) -> list[Alarm]:
        """Alarms of tiers of which every reporter that has not ended is silent."""
        found = []
        for tier in ledger.head.tiers:
            if tier.kind is Kind.BROKER:
                continue
            unfinished = [one for one in ledger.head.reporters_of(tier) if not one.is_last]
            is_silent = bool(unfinished) and all(one.is_silent(now_ms) for one in unfinished)
            alarm = Alarm(SILENT, ledger.topic, tier, None, _silence(ledger.topic, tier, unfinished, now_ms))
            found += self._note(alarm, is_bad=is_silent, now_ms=now_ms)
        return found

    def forget_unseen(self) -> None:
        """Forget the alarms that nothing was noted of since the last call."""
        self._raised = {key: one for key, one in self._raised.items() if key in self._seen}
        self._late_since = {key: since for key, since in self._late_since.items() if key in self._seen}
        self._seen.clear()

    def _is_patient(self, alarm: Alarm, now_ms: int) -> bool:
        """Whether a tier that is only behind has some time left, before that is worth an alarm."""
        if alarm.verdict is not Verdict.LATE or alarm.key in self._raised:
            return False
        return now_ms < self._late_since.setdefault(alarm.key, now_ms) + LATE_PATIENCE_MS

    def _note(self, alarm: Alarm, *, is_bad: bool, now_ms: int) -> list[Alarm]:
        key = alarm.key
        raised = self._raised.get(key)
        if is_bad or key in self._late_since:
            self._seen.add(key)
        if not is_bad:
            if raised is None:
                return []
            del self._raised[key]
            return [replace(alarm, state=AlarmState.RESOLVED)]
        if raised is not None:
            if not _is_news(alarm, raised, now_ms):
                return []
            alarm = replace(alarm, state=AlarmState.CHANGED)
        self._raised[key] = _Raised(alarm, now_ms)
        if len(self._raised) > MAX_RAISED:
            del self._raised[next(iter(self._raised))]
        return [alarm]


def _is_news(alarm: Alarm, raised: _Raised, now_ms: int) -> bool:
    """Whether more is known than was said, or something else; that a tier which is behind catches up is none."""
    before = raised.alarm
    if alarm.losses == before.losses or alarm.verdict is Verdict.LATE:
        return False
    return (alarm.is_located and not before.is_located) or now_ms >= raised.said_ms + CHANGE_PAUSE_MS


def _alarm_of(row: Row) -> Alarm:
    return Alarm(
        INCOMPLETE,
        row.topic,
        row.tier,
        row.bucket,
        _sentence(row),
        verdict=row.verdict,
        expected=row.expected,
        missing=row.missing,
        losses=row.losses,
    )


def _sentence(row: Row) -> str:
    bucket = bucket_text(row.bucket)
    at = "without a time" if bucket is None else f"of the bucket at {bucket}"
    lost = "; ".join(
        f"{place.count} after {place.before}"
        + ("" if place.partition is None else f" in partition {place.partition}")
        + (f" at offsets {', '.join(f'{start}-{end - 1}' for start, end in place.ranges)}" if place.ranges else "")
        for place in row.losses
    )
    share = f"{row.completeness:.3%} of {row.expected}"
    return f"{row.topic} {at}: the tier {row.tier.name!r} has {share}" + (f", {row.verdict} {row.missing}: {lost}" if lost else "")


def _silence(topic: str, tier: Tier, unfinished: list[Reporter], now_ms: int) -> str:
    if not unfinished:
        return f"the tier {tier.name!r} of {topic} has ended"
    hosts = ", ".join(sorted({one.host for one in unfinished}))
    silent_s = (now_ms - max(one.arrived_ms for one in unfinished)) // 1000
    return f"the tier {tier.name!r} of {topic} has not reported for {silent_s} s (on {hosts})"
