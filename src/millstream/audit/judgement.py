"""The verdicts on a topic's buckets, kept from one look to the next: a bucket is judged again only if something changed that matters to it.

A bucket that is open, or at which a tier is late, is judged every time: that is a matter of time. Else its verdicts depend on what was
counted of it, and on what is known of the tiers as a whole (`_basis`). That grows with every report, but what of it matters seldom changes:
which tiers there are, where they began, and what they may have counted or deleted without a report. If something is wrong with
the bucket it also matters who is alive, and what came without a bucket. Only bytes of a tier that copies without a look at times, which are
in proportion to all that it copied, may be those of an earlier look.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from millstream.audit.bucket_view import NO_LOGS, Logs, TopicView
from millstream.audit.ledger import Bucket, Ledger
from millstream.audit.verdict import DEFAULT_GRACE_MS, Row, Verdict, judge_bucket

_Basis: TypeAlias = tuple[object, ...]


class Judgement(NamedTuple):
    """What is to be said of a topic."""

    rows: dict[int, list[Row]]
    """By bucket."""
    news: list[Row]
    """Those of buckets that were judged again, and all that are not complete."""


@dataclass(frozen=True, slots=True)
class _Judged:
    rows: list[Row]
    stamp: tuple[int, int, int]
    basis: _Basis
    is_complete: bool


class TopicJudge:
    """Judges one ledger again and again."""

    def __init__(self) -> None:
        self._known: dict[int, _Judged] = {}
        self._basis: _Basis = ()
        self._whole_basis: _Basis = ()

    def judge(self, ledger: Ledger, *, now_ms: int, grace_ms: int = DEFAULT_GRACE_MS, logs: Logs = NO_LOGS) -> Judgement:
        """The verdicts at this time."""
        view = TopicView(ledger, now_ms=now_ms, grace_ms=grace_ms, logs=logs)
        self._look_at_tiers(ledger, view)
        before, self._known = self._known, {}
        judgement = Judgement({}, [])
        for start in sorted(ledger.buckets):
            bucket = ledger.buckets[start]
            known = before.get(start)
            if known is None or not self._still_holds(known, bucket) or not view.is_over(bucket):
                rows = list(judge_bucket(view, start))
                known = self._judged(rows, bucket)
                judgement.news.extend(rows)
            elif not known.is_complete:
                judgement.news.extend(row for row in known.rows if row.verdict is not Verdict.COMPLETE)
            self._known[start] = known
            judgement.rows[start] = known.rows
        return judgement

    def _look_at_tiers(self, ledger: Ledger, view: TopicView) -> None:
        basis = _basis(ledger, view)
        whole_basis = (basis, *((view.is_live(tier), head.without_bucket.count) for tier, head in ledger.head.tiers.items()))
        # The same object for the same thing: it is compared with that of every bucket.
        if basis != self._basis:
            self._basis = basis
        if whole_basis != self._whole_basis:
            self._whole_basis = whole_basis

    def _judged(self, rows: list[Row], bucket: Bucket) -> _Judged:
        is_complete = all(row.verdict is Verdict.COMPLETE for row in rows)
        is_moving = any(row.verdict in (Verdict.OPEN, Verdict.LATE) for row in rows)
        basis = () if is_moving else self._basis if is_complete else self._whole_basis
        return _Judged(rows, _stamp(bucket), basis, is_complete)

    def _still_holds(self, known: _Judged, bucket: Bucket) -> bool:
        return known.stamp == _stamp(bucket) and known.basis is (self._basis if known.is_complete else self._whole_basis)


def _stamp(bucket: Bucket) -> tuple[int, int, int]:
    return bucket.part, bucket.position, bucket.touched_ms


def _basis(ledger: Ledger, view: TopicView) -> _Basis:
    return tuple(
        (
            tier,
            head.first_bucket,
            tuple((partition, span.start) for partition, span in head.spans.items()),
            bool(head.without_bucket.offsets),
            tuple((doubt.low_ms, doubt.high_ms) for doubt in view.doubts(tier)),
            tuple(head.uncounted.skipped.items()),
            tuple(head.uncounted.skips),
            tuple(head.uncounted.gaps),
            tuple(head.topic_ids),
        )
        for tier, head in ledger.head.tiers.items()
    )
