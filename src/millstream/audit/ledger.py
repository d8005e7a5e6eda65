"""All reports of one topic, added up: a head, and a bucket for each stretch of time with what each tier counted in it.

    ledger = Ledger("orders")
    ledger.apply(report, offset=17, arrived_ms=...)      offset: of the report in its partition of `_audit`
    rows = judge(ledger, now_ms=...)                     (`audit.verdict`)

Right whatever is repeated, lost, late or restarted: a report is counted once, by its reporter and sequence; offsets are united. A part of
the state that was written knows up to which offset of `_audit` it is summed, and skips what it has seen when `_audit` is read again after
a crash: buckets are written before the head, and the head before the place from which to go on.

A bucket that is finished leaves (`forget`) for the archive: should another report of it come, a new part begins, and parts are merged when
they are read (`add_part`).
"""

from dataclasses import dataclass, field
from typing import Final

from millstream.audit.reports.report import ANY_BUCKET, DEFAULT_BUCKET_MS, Count, Kind, Report
from millstream.audit.tier_count import TierCount
from millstream.audit.topic_head import Tier, TopicHead

MAX_OPEN_BUCKETS: Final = 2_000


@dataclass(slots=True)
class Bucket:
    """What each tier counted of one stretch of time."""

    start: int
    """In milliseconds since 1970, or `NO_TIME`."""
    part: int = 0
    """The offset in `_audit` of its first report: names the record of its state."""
    position: int = 0
    """Reports of `_audit` before this offset are in it."""
    arrived_ms: int = 0
    """When a producer last said something of it."""
    touched_ms: int = 0
    """When any tier last did."""
    tiers: dict[Tier, TierCount] = field(default_factory=dict)

    def merge(self, other: "Bucket") -> None:
        """What another part of the same bucket has."""
        self.arrived_ms = max(self.arrived_ms, other.arrived_ms)
        self.touched_ms = max(self.touched_ms, other.touched_ms)
        for tier, count in other.tiers.items():
            self.tiers.setdefault(tier, TierCount()).merge(count)


class Ledger:
    """The reports of one topic."""

    def __init__(self, topic: str, *, bucket_ms: int = DEFAULT_BUCKET_MS) -> None:
        self.topic = topic
        self.bucket_ms = bucket_ms
        self.head = TopicHead()
        self.buckets: dict[int, Bucket] = {}
        self.changed: set[int] = set()
        """Starts of buckets that changed since they were last written; the head changes with every report."""

    def apply(self, report: Report, *, offset: int, arrived_ms: int) -> None:
        """Count a report of this topic, unless it was counted before."""
        if offset < self.head.position:
            return
        self.head.position = offset + 1
        if report.bucket_ms > self.bucket_ms or self.bucket_ms % report.bucket_ms:
            self.head.refused += 1
            return
        if self.head.begins_anew(report):
            self._begin_anew(report)
        if not self.head.accept(report, arrived_ms=arrived_ms):
            return
        tier = Tier.of(report.origin)
        for start, counts in self._by_bucket(report).items():
            bucket = self.buckets.get(start)
            if bucket is None:
                bucket = self.buckets[start] = Bucket(start, part=offset)
            if offset >= bucket.position:
                self._count(bucket, tier, counts, arrived_ms)
                bucket.position = offset + 1
                self.changed.add(start)

    def add_part(self, part: Bucket) -> None:
        """A bucket, or one more part of it, that was read from the state."""
        bucket = self.buckets.get(part.start)
        if bucket is None:
            self.buckets[part.start] = part
        else:
            bucket.merge(part)

    def forget(self, start: int) -> None:
        """A bucket that is written and finished leaves memory."""
        del self.buckets[start]
        self.changed.discard(start)

    def begin_again(self) -> None:
        """Offsets in `_audit` begin with 0 again."""
        self.head.position = 0
        for bucket in self.buckets.values():
            bucket.position = 0
        self.changed.update(self.buckets)

    def merge(self, other: "Ledger") -> None:
        """What another cluster's audit has of the same topic; nothing is shared with it."""
        self.head.merge(other.head)
        for start, part in other.buckets.items():
            self.buckets.setdefault(start, Bucket(start, part.part, part.position)).merge(part)

    def _begin_anew(self, report: Report) -> None:
        """The topic was deleted and created again: its offsets stand for other messages, so of what was counted only numbers remain."""
        self.head.begin_anew(report)
        for start, bucket in self.buckets.items():
            for tier, count in bucket.tiers.items():
                if tier.cluster == report.origin.cluster and count.offsets:
                    count.forget_offsets()
                    self.changed.add(start)

    def _by_bucket(self, report: Report) -> dict[int, list[Count]]:
        buckets: dict[int, list[Count]] = {}
        for count in report.counts:
            if count.bucket != ANY_BUCKET:
                start = count.bucket - count.bucket % self.bucket_ms if count.bucket >= 0 else count.bucket
                buckets.setdefault(start, []).append(count)
        return buckets

    def _count(self, bucket: Bucket, tier: Tier, counts: list[Count], arrived_ms: int) -> None:
        bucket.touched_ms = max(bucket.touched_ms, arrived_ms)
        if tier.kind is Kind.PRODUCER:
            bucket.arrived_ms = max(bucket.arrived_ms, arrived_ms)
        sums = bucket.tiers.setdefault(tier, TierCount())
        for count in counts:
            sums.add(count)
