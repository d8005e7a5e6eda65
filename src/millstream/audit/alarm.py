"""When the audit raises an alarm: a bucket that is over and stays under the threshold, or a tier that fell silent. Each is raised once, and
said to be over once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from millstream.audit.ledger import Ledger
from millstream.audit.report import NO_TIME, Kind
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import DEFAULT_THRESHOLD, Row, Verdict

INCOMPLETE: Final = "incomplete"
SILENT: Final = "silent"
MAX_RAISED: Final = 10_000
_BAD: Final = frozenset({Verdict.MISSING, Verdict.LATE})


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong, or that is well again."""

    kind: str
    topic: str
    tier: Tier
    bucket: int | None
    message: str
    is_over: bool = False


class AlarmBook:
    """Which alarms were raised; says what is new."""

    def __init__(self, *, threshold: float = DEFAULT_THRESHOLD) -> None:
        self._threshold = threshold
        self._raised: dict[tuple[str, str, Tier, int | None], Alarm] = {}

    def __len__(self) -> int:
        return len(self._raised)

    def note_rows(self, rows: Iterable[Row]) -> list[Alarm]:
        """Alarms of buckets that are over."""
        found = []
        for row in rows:
            if row.verdict is Verdict.OPEN:
                continue
            is_bad = row.verdict in _BAD and row.completeness < self._threshold
            found += self._note(Alarm(INCOMPLETE, row.topic, row.tier, row.bucket, _sentence(row), is_over=not is_bad))
        return found

    def note_silence(self, ledger: Ledger, now_ms: int) -> list[Alarm]:
        """Alarms of tiers of which every reporter that has not ended is silent."""
        found = []
        for tier in ledger.head.tiers:
            if tier.kind is Kind.BROKER:
                continue
            unfinished = [one for one in ledger.head.reporters_of(tier) if not one.is_last]
            is_silent = bool(unfinished) and all(one.is_silent(now_ms) for one in unfinished)
            hosts = ", ".join(sorted({one.host for one in unfinished})) or "its reporters"
            message = f"the tier {tier.name!r} of {ledger.topic} has not reported for {_silence_s(unfinished, now_ms)} s (on {hosts})"
            found += self._note(Alarm(SILENT, ledger.topic, tier, None, message, is_over=not is_silent))
        return found

    def _note(self, alarm: Alarm) -> list[Alarm]:
        key = (alarm.kind, alarm.topic, alarm.tier, alarm.bucket)
        if alarm.is_over == (key not in self._raised):
            return []
        if alarm.is_over:
            del self._raised[key]
        else:
            self._raised[key] = alarm
            if len(self._raised) > MAX_RAISED:
                del self._raised[next(iter(self._raised))]
        return [alarm]


def _sentence(row: Row) -> str:
    at = "without a time" if row.bucket == NO_TIME else f"of the bucket at {row.bucket}"
    lost = "; ".join(
        f"{place.count} after {place.before}"
        + ("" if place.partition is None else f" in partition {place.partition}")
        + (f" at offsets {', '.join(f'{start}-{end - 1}' for start, end in place.ranges)}" if place.ranges else "")
        for place in row.losses
    )
    share = f"{row.completeness:.3%} of {row.expected}"
    return f"{row.topic} {at}: the tier {row.tier.name!r} has {share}" + (f", {row.verdict} {row.missing}: {lost}" if lost else "")


def _silence_s(reporters: Iterable[object], now_ms: int) -> int:
    arrived = [getattr(one, "arrived_ms", now_ms) for one in reporters]
    return (now_ms - max(arrived)) // 1000 if arrived else 0
