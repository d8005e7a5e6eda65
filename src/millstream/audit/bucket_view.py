"""A ledger as it is looked at when it is judged: what each tier has of a bucket, found by offsets where its reports have no buckets, and
whether a bucket is over.

A tier that passes on offsets without a look at times is given the bucket by the offsets of the broker that it reads from. What is at the
target of a mirror, with the same offset, has passed the mirror, even if the mirror was killed before it said so.
"""

from typing import Final, NamedTuple

from millstream.audit.chain import Chain
from millstream.audit.ledger import Bucket, Ledger
from millstream.audit.offset_set import EMPTY, OffsetSet
from millstream.audit.reports.report import ANY_PARTITION, Kind
from millstream.audit.reports.reporter import MAX_CLOCK_SKEW_MS, Doubt
from millstream.audit.tier_count import TierCount
from millstream.audit.topic_head import NEVER, Tier, TierHead
from millstream.audit.uncounted import Window


class Logs(NamedTuple):
    """Clusters whose logs of a topic are being counted, by their ids."""

    awaited: frozenset[str] = frozenset()
    """No bucket is over before these have been counted."""
    given_up: frozenset[str] = frozenset()
    """These cannot be counted at the moment: nothing waits for them."""


NO_LOGS: Final = Logs()


class TopicView:
    """One topic at one moment."""

    def __init__(self, ledger: Ledger, *, now_ms: int, grace_ms: int, logs: Logs = NO_LOGS) -> None:
        self.topic = ledger.topic
        self.chain = Chain(ledger.head.tiers)
        self.now_ms = now_ms
        self.grace_ms = grace_ms
        self.bucket_ms = ledger.bucket_ms
        self._ledger = ledger
        self._doubts: dict[Tier, list[Doubt]] = {}
        self._is_live: dict[Tier, bool] = {}
        self._heard_ms: dict[Tier, int] = {}
        """When the reporter of a tier that was not heard for longest, of those that are alive, was heard."""
        self._log_progress_ms = dict.fromkeys(logs.awaited, 0)
        for tier in ledger.head.tiers:
            reporters = ledger.head.reporters_of(tier)
            self._doubts[tier] = [doubt for one in reporters for doubt in one.doubts(now_ms)]
            self._is_live[tier] = any(one.is_live(now_ms) for one in reporters)
            self._heard_ms[tier] = min((one.arrived_ms for one in reporters if one.is_live(now_ms)), default=NEVER)
            if tier.kind is Kind.BROKER and tier.cluster not in logs.given_up:
                self._log_progress_ms[tier.cluster] = max((one.progress_ms for one in reporters), default=0)
        live = [one for one in ledger.head.reporters.values() if one.kind is Kind.PRODUCER and one.is_live(now_ms)]
        self.watermark_ms = min((one.progress_ms for one in live), default=now_ms)
        """No producer that is alive expects messages from before this time."""
        ahead_ms = max((one.ahead_ms for one in ledger.head.reporters.values() if one.kind is Kind.PRODUCER), default=0)
        self._ahead_ms = max(ahead_ms - self.bucket_ms, 0)
        """How much later than they are sent messages claim to be, at most."""

    def bucket(self, start: int) -> "BucketView":
        """What the tiers have of a bucket."""
        return BucketView(self, self._ledger.buckets[start])

    def head(self, tier: Tier) -> TierHead:
        """How far a tier has got."""
        return self._ledger.head.tiers[tier]

    def doubts(self, tier: Tier) -> list[Doubt]:
        """When a tier may have counted what it never reported."""
        return self._doubts[tier]

    def is_live(self, tier: Tier) -> bool:
        """Whether a reporter of the tier may hold counts that it has not yet reported."""
        return self._is_live[tier]

    def is_over(self, bucket: Bucket) -> bool:
        """Whether all messages of the bucket have been counted by producers and brokers, for all one can know."""
        end_ms = self._end_ms(bucket)
        due_ms = max(end_ms, bucket.arrived_ms)
        return end_ms + self.grace_ms <= self.watermark_ms and all(progress >= due_ms for progress in self._log_progress_ms.values())

    def may_hold_back(self, tier: Tier, bucket: Bucket) -> bool:
        """Whether a reporter of the tier that is alive has said nothing since the bucket was over: it may have more of it."""
        return self._heard_ms[tier] < max(self._end_ms(bucket) + self.grace_ms, bucket.arrived_ms)

    def was_written_in(self, windows: list[Window], bucket: Bucket) -> bool:
        """Whether messages of the bucket may have been written in one of these windows."""
        said_ms = bucket.arrived_ms or bucket.touched_ms or self._end_ms(bucket)
        return any(window.low_ms <= said_ms and bucket.start <= window.high_ms + self._ahead_ms for window in windows)

    def is_ahead(self, tier: Tier, losses: list[tuple[int | None, int | None]]) -> bool:
        """Whether the tier is alive and has not yet got to any of these partitions and offsets."""
        moving = [tier, *self.chain.mirrors_into(tier.cluster)] if tier.kind is Kind.BROKER else [tier]
        if not any(self._is_live[one] for one in moving):
            return False
        head = self.head(tier)
        return all(partition is not None and offset is not None and offset >= head.position(partition) for partition, offset in losses)

    def _end_ms(self, bucket: Bucket) -> int:
        end_ms = bucket.start + self.bucket_ms
        # Without a time, or of a clock that is years ahead: over when nothing comes any more.
        return bucket.arrived_ms if bucket.start < 0 or end_ms > self.now_ms + MAX_CLOCK_SKEW_MS else end_ms


class BucketView:
    """One bucket at one moment."""

    def __init__(self, view: TopicView, bucket: Bucket) -> None:
        self._view = view
        self._bucket = bucket
        self._counts: dict[Tier, TierCount] = {}
        self.start = bucket.start
        self.is_open = not view.is_over(bucket)

    def is_held_back(self, tier: Tier) -> bool:
        """Whether the tier may have more of the bucket than it has said."""
        return self._view.may_hold_back(tier, self._bucket)

    def of(self, tier: Tier) -> TierCount:
        """What a tier has of the bucket."""
        found = self._counts.get(tier)
        if found is None:
            found = self._counts[tier] = self._of(tier)
        return found

    def sum_of(self, tiers: list[Tier]) -> TierCount:
        """What several tiers have together."""
        if len(tiers) == 1:
            return self.of(tiers[0])
        total = TierCount()
        for tier in tiers:
            total.merge(self.of(tier))
        return total

    def is_expected(self, tier: Tier) -> bool:
        """Whether the tier has anything to do with messages of this time."""
        if tier.kind in {Kind.BROKER, Kind.MIRROR} or self.start < 0 or self.of(tier).count:
            return True
        head = self._view.head(tier)
        return bool(head.without_bucket.offsets) or self.start >= head.first_bucket

    def owed(self, tier: Tier, wanted: TierCount) -> TierCount:
        """What of it the tier should have; consumers and loads may have begun later."""
        if tier.kind in {Kind.BROKER, Kind.MIRROR}:
            return wanted
        head = self._view.head(tier)
        owed = TierCount()
        owed.offsets = {
            partition: due for partition, offsets in wanted.offsets.items() if (due := head.answers_for(partition, offsets, self.start))
        }
        return owed

    def comparable(self, tier: Tier, partition: int, offsets: OffsetSet) -> OffsetSet:
        """Those of the offsets that the tiers before could have counted as well: retention may have been faster than the auditor."""
        chain = self._view.chain
        brokers = {one if one.kind is Kind.BROKER else chain.broker_of(one) for one in chain.feeding(tier) if one.kind is not Kind.PRODUCER}
        heads = [self._view.head(broker) for broker in brokers if broker is not None]
        for head in heads:
            offsets -= head.uncounted.of(partition)
        started = [span.start for head in heads if (span := head.spans.get(partition)) is not None]
        return offsets - OffsetSet((-1, min(started))) if started and min(started) >= 0 else offsets

    def lost(self, tier: Tier, owed: TierCount, counted: TierCount) -> list[tuple[int, OffsetSet]]:
        """By partition, the offsets that a tier lacks; those that were deleted before they were counted only if it lacks no others."""
        lost = list(owed.missing_from(counted))
        uncounted = self._view.head(tier).uncounted
        proven = [(partition, rest) for partition, offsets in lost if (rest := offsets - uncounted.of(partition))]
        return proven or lost

    def may_be_uncounted(self, tier: Tier, first_offsets: list[tuple[int | None, int | None]]) -> bool:
        """Whether the log of a broker may have had what it lacks; of each partition the first offset is enough, where it is known."""
        uncounted = self._view.head(tier).uncounted
        if not self._view.chain.mirrors_into(tier.cluster) and self._view.was_written_in(uncounted.gaps, self._bucket):
            return True
        return all(
            self._view.was_written_in(uncounted.skips, self._bucket)
            if partition is None or offset is None
            else offset in uncounted.of(partition)
            for partition, offset in first_offsets
        )

    def is_in_doubt(self, tier: Tier) -> bool:
        """Whether the tier may have had messages of this time that are in no report."""
        if tier.kind is Kind.BROKER and self._view.was_written_in(self._view.head(tier).uncounted.skips, self._bucket):
            return True
        if self.start < 0:
            return bool(self._view.doubts(tier))
        end_ms = self.start + self._view.bucket_ms
        return any(doubt.low_ms < end_ms and doubt.high_ms >= self.start for doubt in self._view.doubts(tier))

    def is_confirmed(self, tier: Tier) -> bool:
        """Whether the broker has as many messages as its producers reported, no more."""
        brokers = [one for one in self._view.chain.in_order() if one.kind is Kind.BROKER and tier in self._view.chain.feeding(one)]
        return bool(brokers) and all(self.of(one).count <= self.sum_of(self._view.chain.feeding(one)).count for one in brokers)

    def _of(self, tier: Tier) -> TierCount:
        counted = self._bucket.tiers.get(tier)
        without_bucket = self._view.head(tier).without_bucket
        broker = self._view.chain.broker_of(tier) if tier.kind not in {Kind.PRODUCER, Kind.BROKER} else None
        source = self._bucket.tiers.get(broker) if broker is not None else None
        if source is None or (not without_bucket.offsets and tier.kind is not Kind.MIRROR):
            return counted or TierCount()
        if source.unplaced:
            return counted or self._by_numbers(tier, source)
        total = TierCount()
        for part in (counted, _placed(without_bucket, source)):
            if part is not None:
                total.merge(part)
        if tier.kind is Kind.MIRROR:
            self._add_what_arrived(tier, total, source)
        return total

    def _by_numbers(self, tier: Tier, source: TierCount) -> TierCount:
        """Of a bucket whose offsets are no longer known: a mirror has passed on what arrived; nothing speaks against any other tier."""
        target = self._view.chain.target_of(tier) if tier.kind is Kind.MIRROR else None
        found = TierCount()
        found.unplaced[ANY_PARTITION] = (self.of(target) if target is not None else source).count
        return found

    def _add_what_arrived(self, mirror: Tier, total: TierCount, source: TierCount) -> None:
        target = self._view.chain.target_of(mirror)
        arrived = self._bucket.tiers.get(target) if target is not None else None
        if arrived is None or not (arrived.is_exact and source.is_exact and total.is_exact):
            return
        for partition, offsets in arrived.within(source.offsets).offsets.items():
            total.offsets[partition] = total.offsets.get(partition, EMPTY) | offsets


def _placed(passed: TierCount, source: TierCount) -> TierCount:
    """What a tier that does not look at times has of a bucket, by the offsets that its broker has in it."""
    if source.is_exact and passed.is_exact:
        return passed.within(source.offsets)
    found = TierCount()
    for partition, offsets in source.offsets.items():
        # Which of the offsets are in the bucket is not known: what was not passed on counts as lost.
        lost = offsets - passed.offsets.get(partition, EMPTY)
        found.unplaced[partition] = max(len(offsets) - len(OffsetSet(lost.bounds)), 0)
    return found
