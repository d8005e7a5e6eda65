"""What is known of a topic beside its buckets: who reports, how far each tier has got, and what came without a bucket.

A consumer or load answers for offsets from the first one on that it counted in a partition, and for whole partitions that it never touched
from the bucket after its first one on: who began at the end of a log has not lost what was before. Brokers and mirrors answer for all.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_BUCKET, Kind, Origin, Report
from millstream.audit.reports.reporter import Reporter
from millstream.audit.tier_count import TierCount
from millstream.audit.uncounted import Uncounted

MAX_TIERS: Final = 500
"""Names of tiers that are made up for each process would grow without end."""
MAX_REPORTERS: Final = 1_000
MANY_REPORTERS: Final = 200
"""With more than these, those that have ended are forgotten after an hour."""
FORGET_REPORTER_MS: Final = 3_600_000
NEVER: Final = 1 << 62
MAX_TOPIC_IDS: Final = 20


class Tier(NamedTuple):
    """A tier of a topic."""

    name: str
    kind: Kind
    cluster: str
    target: str = ""
    """Of a mirror: the cluster it writes to."""

    @classmethod
    def of(cls, origin: Origin) -> "Tier":
        """The tier that a report is from."""
        return cls(origin.tier, origin.kind, origin.cluster, origin.target)


class Span(NamedTuple):
    """The first offset of a partition that a tier has to do with, and the one after the last."""

    start: int
    end: int


@dataclass(slots=True)
class TierHead:
    """How far one tier has got."""

    first_bucket: int = NEVER
    spans: dict[int, Span] = field(default_factory=dict)
    """Per partition, what lies between the first and the last offset that it counted."""
    read: dict[int, Span] = field(default_factory=dict)
    """Per partition, what a reader of logs has covered without a gap."""
    without_bucket: TierCount = field(default_factory=TierCount)
    """What it passed on without a look at times."""
    refused: int = 0
    """Reports of a reader that did not begin where the last one ended: another reader was faster."""
    topic_ids: list[str] = field(default_factory=list)
    """Of a broker: the ids that the topic had, the present one last. It has another one when it is deleted and created anew."""
    uncounted: Uncounted = field(default_factory=Uncounted)
    """Of a broker: what was deleted before it was counted."""

    def note(self, report: Report, *, arrived_ms: int) -> None:
        """Follow a report that is counted."""
        for count in report.counts:
            if count.bucket >= 0:
                self.first_bucket = min(self.first_bucket, count.bucket)
            if count.offsets:
                self._reach(self.spans, count.partition, count.offsets.start, count.offsets.end)
            if count.bucket == ANY_BUCKET:
                self.without_bucket.add(count)
        for partition, start, end in report.read:
            self._reach(self.read, partition, start, end)
        if report.origin.kind is Kind.BROKER:
            self.uncounted.note(report, arrived_ms=arrived_ms)
        if report.topic_id is not None and not self.topic_ids:
            self.topic_ids = [report.topic_id]

    def follows(self, report: Report) -> bool:
        """Whether the ranges of the report begin where those before ended, in the same topic."""
        if report.topic_id is not None and self.topic_ids and report.topic_id != self.topic_ids[-1]:
            return False
        return all(covered.partition not in self.read or self.read[covered.partition].end == covered.start for covered in report.read)

    @property
    def topic_id(self) -> str | None:
        """The id of the topic whose log was counted last, if it is known."""
        return self.topic_ids[-1] if self.topic_ids else None

    def forget_offsets(self) -> None:
        """The topic was created anew: offsets begin again."""
        self.spans.clear()
        self.read.clear()
        self.uncounted.forget_offsets()
        self.without_bucket = TierCount()

    def answers_for(self, partition: int, offsets: OffsetSet, bucket: int) -> OffsetSet:
        """Those of the offsets in a bucket that the tier should have."""
        span = self.spans.get(partition)
        if span is not None:
            return offsets - OffsetSet((-1, span.start)) if offsets and offsets.start < span.start else offsets
        return offsets if bucket > self.first_bucket or bucket < 0 else OffsetSet()

    def position(self, partition: int) -> int:
        """Where the tier has got to."""
        span = self.read.get(partition) or self.spans.get(partition)
        return span.end if span is not None else 0

    def merge(self, other: "TierHead") -> None:
        """What another part of the same tier's history has."""
        self.first_bucket = min(self.first_bucket, other.first_bucket)
        for mine, theirs in ((self.spans, other.spans), (self.read, other.read)):
            for partition, (start, end) in theirs.items():
                self._reach(mine, partition, start, end)
        self.without_bucket.merge(other.without_bucket)
        self.uncounted.merge(other.uncounted)
        self.refused += other.refused
        self.topic_ids += [one for one in other.topic_ids if one not in self.topic_ids]

    @staticmethod
    def _reach(spans: dict[int, Span], partition: int, start: int, end: int) -> None:
        known = spans.get(partition)
        spans[partition] = Span(start, end) if known is None else Span(min(known.start, start), max(known.end, end))


@dataclass(slots=True)
class TopicHead:
    """Reporters and tiers of one topic."""

    position: int = 0
    """Reports of `_audit` before this offset are in it."""
    tiers: dict[Tier, TierHead] = field(default_factory=dict)
    reporters: dict[tuple[str, ...], Reporter] = field(default_factory=dict)
    refused: int = 0
    """Reports whose buckets cannot be compared (too long, or of a length that does not divide the topic's), or of one tier too many."""

    def accept(self, report: Report, *, arrived_ms: int) -> bool:
        """Note the report; False if it is not to be counted: a repeat, or a reader that another one was faster than."""
        tier = Tier.of(report.origin)
        # The log is counted in any case: whoever reads it goes on only when its reports are taken.
        if len(self.tiers) >= MAX_TIERS and tier.kind is not Kind.BROKER and tier not in self.tiers:
            self.refused += 1
            return False
        reporter = self._reporter(report)
        if not reporter.accept(report, arrived_ms=arrived_ms):
            return False
        head = self.tiers.setdefault(tier, TierHead())
        if not head.follows(report):
            head.refused += 1
            return False
        head.note(report, arrived_ms=arrived_ms)
        return True

    def begins_anew(self, report: Report) -> bool:
        """Whether the report is of the log of a topic that was created anew since the last one."""
        if report.origin.kind is not Kind.BROKER or report.topic_id is None:
            return False
        known = self.tiers.get(Tier.of(report.origin))
        return known is not None and bool(known.topic_ids) and report.topic_id not in known.topic_ids

    def begin_anew(self, report: Report) -> None:
        """Forget the offsets of all tiers of the cluster whose topic it is."""
        for tier, head in self.tiers.items():
            if tier.cluster == report.origin.cluster:
                head.forget_offsets()
        of_log = self.tiers[Tier.of(report.origin)]
        of_log.topic_ids = [*of_log.topic_ids, report.topic_id or ""][-MAX_TOPIC_IDS:]

    def reporters_of(self, tier: Tier) -> list[Reporter]:
        """All of one tier."""
        return [one for one in self.reporters.values() if (one.tier, one.kind, one.cluster) == tier[:3]]

    def merge(self, other: "TopicHead") -> None:
        """What the state of another cluster, or of another partition of `_audit`, has of the topic."""
        for tier, head in other.tiers.items():
            self.tiers.setdefault(tier, TierHead()).merge(head)
        for key, reporter in other.reporters.items():
            self.reporters.setdefault(key, reporter)
        self.refused += other.refused

    def _reporter(self, report: Report) -> Reporter:
        origin = report.origin
        key = (str(report.reporter), *origin)
        reporter = self.reporters.get(key)
        if reporter is None:
            if len(self.reporters) >= MANY_REPORTERS:
                self._forget()
            reporter = self.reporters[key] = Reporter(
                report.reporter, origin.kind, origin.tier, origin.cluster, origin.host, origin.application
            )
        return reporter

    def _forget(self) -> None:
        """Leave out who has ended long ago and owes nothing; of very many, those that were not heard for longest."""
        newest_ms = max(one.arrived_ms for one in self.reporters.values())
        ended = [
            key for key, one in self.reporters.items() if one.is_last and not one.gaps and one.arrived_ms < newest_ms - FORGET_REPORTER_MS
        ]
        for key in ended:
            del self.reporters[key]
        if len(self.reporters) >= MAX_REPORTERS:
            oldest = sorted(self.reporters, key=lambda key: (not self.reporters[key].is_last, self.reporters[key].arrived_ms))
            for key in oldest[: MAX_REPORTERS // 10]:
                del self.reporters[key]
