"""What the reports of a topic say about each bucket and tier: did everything arrive, and if not, what is lost between which two tiers?

    open       messages of this time may still come: a producer that is alive has not got past it, or the log has not been read so far;
               or a tier that knows no offsets lacks some, is alive, and has not reported since
    complete   as many as came from the tiers before, and the same offsets where they are known
    missing    some are lost; `losses` says how many, of which partition and, where tiers know offsets, which ones
    late       some are not there yet, and all of them lie ahead of where the tier is, which is alive
    surplus    more than came from the tiers before: duplicates, or messages of a producer that reports nothing
    unknown    more than producers reported, and one of them was killed, or a report of it was lost: neither loss nor duplicates are proven;
               or less at a broker, and some of its log was deleted or compacted away before it was counted

Numbers are given whatever the verdict is. Two tiers that know offsets are compared by offsets, two that know partitions partition by
partition, all others by their totals; sets that became coarse count as numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from millstream.audit.bucket_view import NO_LOGS, BucketView, Logs, TopicView
from millstream.audit.ledger import Ledger
from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_PARTITION, Delay, Kind
from millstream.audit.tier_count import TierCount
from millstream.audit.topic_head import Tier

DEFAULT_GRACE_MS: Final = 10_000
DEFAULT_THRESHOLD: Final = 0.999
MAX_RANGES: Final = 20


class Verdict(StrEnum):
    """What is to be said of a bucket at a tier."""

    COMPLETE = "complete"
    MISSING = "missing"
    SURPLUS = "surplus"
    LATE = "late"
    OPEN = "open"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """Messages of one partition that one side has and the other has not."""

    before: str
    """The tier, or tiers, before."""
    partition: int | None
    count: int
    ranges: tuple[tuple[int, int], ...]
    """Offsets from, up to but not including; the first 20. Empty where offsets are not known."""

    def document(self) -> dict[str, object]:
        """The place as JSON; offsets are from and to, both included."""
        offsets = [{"from": start, "to": end - 1} for start, end in self.ranges]
        return {"before": self.before, "partition": self.partition, "count": self.count, "offsets": offsets}


@dataclass(frozen=True, slots=True)
class Row:
    """One bucket of a topic at one tier."""

    topic: str
    bucket: int
    tier: Tier
    count: int
    bytes: int
    expected: int
    """What the tier should have."""
    missing: int
    surplus: int
    repeated: int
    """Messages that the tier handled again, which are counted once."""
    malformed: int
    control: int
    aborted: int
    delay: Delay | None
    verdict: Verdict
    losses: tuple[Place, ...] = ()
    surpluses: tuple[Place, ...] = ()

    @property
    def completeness(self) -> float:
        """The share of what should be there that is; nothing of nothing is complete."""
        return (self.expected - self.missing) / self.expected if self.expected else 1.0


def judge(ledger: Ledger, *, now_ms: int, grace_ms: int = DEFAULT_GRACE_MS, logs: Logs = NO_LOGS) -> Iterator[Row]:
    """The rows of a topic, by bucket and in the order of tiers."""
    view = TopicView(ledger, now_ms=now_ms, grace_ms=grace_ms, logs=logs)
    for start in sorted(ledger.buckets):
        yield from judge_bucket(view, start)


def judge_bucket(view: TopicView, start: int) -> Iterator[Row]:
    """The rows of one bucket; tiers that have nothing and should have nothing are left out."""
    bucket = view.bucket(start)
    for tier in view.chain.in_order():
        row = _row(view, bucket, tier)
        if row.count or row.expected or row.control or row.aborted:
            yield row


def _row(view: TopicView, bucket: BucketView, tier: Tier) -> Row:
    counted = bucket.of(tier)
    feeding = view.chain.feeding(tier)
    before = "+".join(one.name for one in feeding)
    losses: list[Place] = []
    surpluses: list[Place] = []
    expected = counted.count
    if feeding and bucket.is_expected(tier):
        wanted = bucket.sum_of(feeding)
        losses, surpluses, expected = _compare(bucket, tier, wanted, counted, before)
    missing, surplus = sum(place.count for place in losses), sum(place.count for place in surpluses)
    return Row(
        topic=view.topic,
        bucket=bucket.start,
        tier=tier,
        count=counted.count,
        bytes=counted.bytes,
        expected=expected,
        missing=missing,
        surplus=surplus,
        repeated=counted.repeated,
        malformed=counted.malformed,
        control=counted.control,
        aborted=counted.aborted,
        delay=counted.delay,
        verdict=_verdict(view, bucket, tier, losses, surplus),
        losses=tuple(losses),
        surpluses=tuple(surpluses),
    )


def _verdict(view: TopicView, bucket: BucketView, tier: Tier, losses: list[Place], surplus: int) -> Verdict:
    if bucket.is_open:
        return Verdict.OPEN
    if tier.kind is Kind.PRODUCER:
        return Verdict.UNKNOWN if bucket.is_in_doubt(tier) and not bucket.is_confirmed(tier) else Verdict.COMPLETE
    if not view.chain.feeding(tier):
        return Verdict.COMPLETE if tier.kind is Kind.BROKER else Verdict.UNKNOWN
    if losses:
        if view.is_ahead(tier, losses_of(losses)):
            return Verdict.LATE
        if tier.kind is Kind.BROKER and bucket.may_be_uncounted(tier, losses_of(losses)):
            return Verdict.UNKNOWN
        is_located = all(place.ranges for place in losses)
        return Verdict.OPEN if not is_located and tier.kind is not Kind.BROKER and bucket.is_held_back(tier) else Verdict.MISSING
    if surplus:
        return Verdict.UNKNOWN if any(map(bucket.is_in_doubt, view.chain.feeding(tier))) else Verdict.SURPLUS
    return Verdict.COMPLETE


def losses_of(losses: list[Place]) -> list[tuple[int | None, int | None]]:
    """Partition and first offset of each loss, as far as they are known."""
    return [(place.partition, place.ranges[0][0] if place.ranges else None) for place in losses]


def _compare(bucket: BucketView, tier: Tier, wanted: TierCount, counted: TierCount, before: str) -> tuple[list[Place], list[Place], int]:
    """Losses, surpluses and how many were expected."""
    if wanted.is_exact and counted.is_exact:
        owed = bucket.owed(tier, wanted)
        losses = [_place(before, partition, lost) for partition, lost in bucket.lost(tier, owed, counted)]
        extra = [(partition, bucket.comparable(tier, partition, more)) for partition, more in counted.missing_from(wanted)]
        return losses, [_place(before, partition, more) for partition, more in extra if more], owed.count
    if wanted.knows_partitions and counted.knows_partitions:
        pairs = [(one, wanted.of_partition(one), counted.of_partition(one)) for one in sorted(wanted.partitions() | counted.partitions())]
    else:
        pairs = [(ANY_PARTITION, wanted.count, counted.count)]
    losses = [_number(before, partition, want - have) for partition, want, have in pairs if want > have]
    return losses, [_number(before, partition, have - want) for partition, want, have in pairs if have > want], wanted.count


def _place(before: str, partition: int, offsets: OffsetSet) -> Place:
    return Place(before, partition, len(offsets), tuple(islice(offsets.intervals(), MAX_RANGES)))


def _number(before: str, partition: int, count: int) -> Place:
    return Place(before, None if partition == ANY_PARTITION else partition, count, ())
