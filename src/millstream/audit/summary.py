"""What is known of a topic, put together for people: rows where these are asked for, and sums over columns where all of it is.

A bucket may be in several places: in the archives of several clusters, in several parts of one, and in the ledger. Then it is put together
by its numbers and judged again, and so is one that was open when it was archived; most are in one archive and are taken as they stand.
"""

import re
from collections import Counter as Multiset
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from millstream.audit.archive import ABSENT, SEVERITY, Archive
from millstream.audit.bucket_view import TopicView
from millstream.audit.ledger import Ledger
from millstream.audit.remarks import Remark, remarks_on
from millstream.audit.topic_head import Tier, TierHead
from millstream.audit.verdict import DEFAULT_GRACE_MS, Row, Verdict, judge_bucket


@dataclass(frozen=True)
class Selection:
    """Which rows are wanted."""

    since_ms: int | None = None
    until_ms: int | None = None
    topic: re.Pattern[str] | None = None
    tier: str | None = None

    def has_topic(self, topic: str) -> bool:
        """Whether the topic is wanted."""
        return self.topic is None or self.topic.fullmatch(topic) is not None

    def has_bucket(self, start: int) -> bool:
        """Whether the bucket that begins there is wanted; one without a time always is."""
        return start < 0 or ((self.since_ms is None or start >= self.since_ms) and (self.until_ms is None or start < self.until_ms))

    def has_tier(self, tier: Tier) -> bool:
        """Whether the tier is wanted."""
        return self.tier is None or tier.name == self.tier

    @property
    def is_everything(self) -> bool:
        """Whether all buckets and tiers are wanted."""
        return self.since_ms is None and self.until_ms is None and self.tier is None


@dataclass
class TierTotal:
    """One tier of a topic, over all buckets."""

    count: int = 0
    bytes: int = 0
    missing: int = 0
    surplus: int = 0
    repeated: int = 0
    expected: int = 0
    verdicts: "Multiset[Verdict]" = field(default_factory=Multiset)

    def add(self, row: Row) -> None:
        """One more bucket."""
        self.count += row.count
        self.bytes += row.bytes
        self.missing += row.missing
        self.surplus += row.surplus
        self.repeated += row.repeated
        self.expected += row.expected
        self.verdicts[row.verdict] += 1

    @property
    def completeness(self) -> float:
        """The share of what should be there that is."""
        return (self.expected - self.missing) / self.expected if self.expected else 1.0


@dataclass
class TopicSummary:
    """One topic: its tiers, and the worst verdict of each bucket."""

    topic: str
    tiers: dict[Tier, TierTotal] = field(default_factory=dict)
    worst: dict[int, int] = field(default_factory=dict)
    """Start of the bucket to the place of its worst verdict in `SEVERITY`, of buckets that are not in `columns`."""
    columns: list[tuple[Sequence[int], bytes]] = field(default_factory=list)
    """The same, by the archive: starts and places."""
    problems: list[Row] = field(default_factory=list)
    """Rows that are neither complete nor open."""

    def cells(self) -> list[tuple[Sequence[int], bytes]]:
        """Starts of buckets and the places of their worst verdicts in `SEVERITY`."""
        return [*self.columns, (list(self.worst), bytes(self.worst.values()))]


class TopicAudit:
    """One topic with everything that is known of it."""

    def __init__(self, ledger: Ledger, archives: Iterable[Archive], *, now_ms: int, grace_ms: int = DEFAULT_GRACE_MS) -> None:
        self._ledger = ledger
        self._now_ms = now_ms
        self._grace_ms = grace_ms
        self._whole: list[tuple[Archive, frozenset[int]]] = []
        """Archives, and the starts of those of their buckets that are elsewhere as well."""
        self._put_together(list(archives))

    def rows(self, selection: Selection) -> Iterator[Row]:
        """All rows that are wanted, by bucket."""
        places = [
            (start, archive, position)
            for archive, elsewhere in self._whole
            for position, start in enumerate(archive.starts)
            if start not in elsewhere and selection.has_bucket(start)
        ]
        live = [(start, None, 0) for start in self._ledger.buckets if selection.has_bucket(start)]
        view = self._view()
        for start, archive, position in sorted([*places, *live], key=lambda place: place[0]):
            found = archive.rows_at(position) if archive is not None else judge_bucket(view, start)
            yield from (row for row in found if selection.has_tier(row.tier))

    def remarks(self) -> Iterator[Remark]:
        """What is odd about its reports."""
        return remarks_on(self._ledger)

    def summary(self, selection: Selection) -> TopicSummary:
        """Sums, and what is wrong."""
        summary = TopicSummary(self._ledger.topic)
        if selection.is_everything:
            for archive, elsewhere in self._whole:
                if not elsewhere:
                    _add_columns(summary, archive)
                else:
                    wanted = [position for position, start in enumerate(archive.starts) if start not in elsewhere]
                    _add_rows(summary, (row for position in wanted for row in archive.rows_at(position)))
            view = self._view()
            _add_rows(summary, (row for start in self._ledger.buckets for row in judge_bucket(view, start)))
        else:
            _add_rows(summary, self.rows(selection))
        summary.problems.sort(key=lambda row: row.bucket)
        return summary

    def _view(self) -> TopicView:
        return TopicView(self._ledger, now_ms=self._now_ms, grace_ms=self._grace_ms)

    def _put_together(self, archives: list[Archive]) -> None:
        """Buckets that are in several places, or were not judged to the end, become buckets of the ledger."""
        ledger = self._ledger
        unjudged: set[int] = set().union(*(archive.open_starts() for archive in archives))
        if not unjudged and _are_apart(archives, ledger):
            self._whole = [(archive, frozenset()) for archive in archives]
            return
        times = Multiset(start for archive in archives for start in archive.starts)
        several = frozenset(start for start, number in times.items() if number > 1 or start in ledger.buckets or start in unjudged)
        for archive in archives:
            for tier in archive.tiers:
                ledger.head.tiers.setdefault(tier, TierHead())
            for position, start in enumerate(archive.starts):
                if start in several:
                    ledger.add_part(archive.bucket_at(position))
            self._whole.append((archive, several))


def _are_apart(archives: list[Archive], ledger: Ledger) -> bool:
    """Whether no bucket is in two of them."""
    runs = sorted((archive.starts for archive in archives if isinstance(archive.starts, range)), key=lambda starts: starts.start)
    # Nearly always each day's follow those of the day before.
    if not ledger.buckets and len(runs) == len(archives) and all(before.stop <= after.start for before, after in pairwise(runs)):
        return True
    return sum(map(len, archives)) + len(ledger.buckets) == len(set(ledger.buckets).union(*(archive.starts for archive in archives)))


def _add_rows(summary: TopicSummary, rows: Iterable[Row]) -> None:
    for row in rows:
        summary.tiers.setdefault(row.tier, TierTotal()).add(row)
        summary.worst[row.bucket] = max(summary.worst.get(row.bucket, 0), SEVERITY.index(row.verdict))
        if row.verdict not in (Verdict.COMPLETE, Verdict.OPEN):
            summary.problems.append(row)


def _add_columns(summary: TopicSummary, archive: Archive) -> None:
    """What `_add_rows` would do with all rows of an archive, without making them."""
    worst = bytes(len(archive))
    for tier, columns in archive.tiers.items():
        total = summary.tiers.setdefault(tier, TierTotal())
        total.count += columns.total_count
        total.expected += columns.total_count
        total.bytes += columns.total_bytes
        if columns.seldom:
            total.expected += columns.difference_to_expected()
            for name in ("missing", "surplus", "repeated"):
                setattr(total, name, getattr(total, name) + columns.total(name))
        total.verdicts[Verdict.COMPLETE] += columns.complete
        if columns.complete < len(archive):
            worst = bytes(map(max, worst, columns.verdicts.replace(bytes([ABSENT]), b"\0")))
            _add_incomplete(summary, archive, tier)
    summary.columns.append((archive.starts, worst))


def _add_incomplete(summary: TopicSummary, archive: Archive, tier: Tier) -> None:
    verdicts = archive.tiers[tier].verdicts
    for code, verdict in enumerate(SEVERITY[1:], 1):
        summary.tiers[tier].verdicts[verdict] += verdicts.count(code)
    wanted = [position for position, code in enumerate(verdicts) if code not in (0, 1, ABSENT)]
    summary.problems += [row for position in wanted for row in archive.rows_at(position) if row.tier == tier]
