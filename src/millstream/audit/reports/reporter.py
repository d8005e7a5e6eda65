"""One reporter of a topic, as its reports show it: which of them came, when it was last heard, and what it may have counted without saying.

A report that was lost, and the death of a reporter that did not say its last word, leave a doubt: messages that it counted and that are in
no report. A doubt is a window of time, in which their buckets are: between the reports around it, and as much earlier or later as the
messages of this reporter ever were. It closes when the lost report comes after all.
"""

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID
from zlib import crc32

from millstream.audit.offset_set import EMPTY, OffsetSet
from millstream.audit.reports.report import Kind, Report

SILENT_INTERVALS: Final = 3
"""So many times its own interval without a report, and a reporter is taken for dead."""
MAX_GAPS: Final = 100
MAX_DIGESTS: Final = 8
MAX_CLOCK_SKEW_MS: Final = 24 * 3_600_000
"""A clock that is further off than this is not believed."""


@dataclass(slots=True)
class Doubt:
    """Reports from `start` up to `end` did not come; they were sent between `low_ms` and `high_ms`."""

    start: int
    end: int
    low_ms: int
    high_ms: int

    def widen(self, low_ms: int, high_ms: int) -> None:
        """Make the window at least this one."""
        self.low_ms = min(self.low_ms, low_ms)
        self.high_ms = max(self.high_ms, high_ms)


@dataclass(slots=True)
class Reporter:
    """What is known of one reporter of one topic."""

    id: UUID
    kind: Kind
    tier: str
    cluster: str
    host: str
    application: str
    seen: OffsetSet = EMPTY
    """Sequences of the reports that came."""
    gaps: list[Doubt] = field(default_factory=list)
    arrived_ms: int = 0
    """When its latest report reached the topic, by the broker's clock."""
    interval_ms: int = 0
    is_last: bool = False
    progress_ms: int = 0
    sent_ms: int = 0
    """When its latest report was sent, by its own clock if that can be believed."""
    lag_ms: int = 0
    """How much earlier than their report the messages of a bucket began, at most."""
    ahead_ms: int = 0
    """How much later than their report a bucket ended, at most."""
    has_wrong_clock: bool = False
    conflicts: int = 0
    """Reports with the number of an earlier one and other counts: two processes go by the same id."""
    digests: dict[int, int] = field(default_factory=dict)
    """Of its latest reports, by sequence."""

    def accept(self, report: Report, *, arrived_ms: int) -> bool:
        """Note the report; False if it came before."""
        digest = _digest(report)
        if report.sequence in self.seen:
            self.conflicts += self.digests.get(report.sequence, digest) != digest
            return False
        sent_ms = self._believed(report.sent_ms, arrived_ms)
        self._note_times(report, sent_ms)
        self._note_gaps(report.sequence, sent_ms)
        is_latest = not self.seen or report.sequence >= self.seen.end
        self.seen = _bounded(self.seen | OffsetSet((report.sequence, report.sequence + 1)))
        self.digests[report.sequence] = digest
        if len(self.digests) > MAX_DIGESTS:
            del self.digests[min(self.digests)]
        self.arrived_ms = max(self.arrived_ms, arrived_ms)
        if is_latest:
            self.sent_ms = sent_ms
            self.interval_ms, self.is_last = report.interval_ms, report.is_last
            self.progress_ms = self._believed(report.sent_ms if report.progress_ms is None else report.progress_ms, arrived_ms)
        return True

    def is_silent(self, now_ms: int) -> bool:
        """Whether it owes a report for so long that it must be dead."""
        return not self.is_last and now_ms > self.arrived_ms + SILENT_INTERVALS * self.interval_ms

    def is_live(self, now_ms: int) -> bool:
        """Whether it may hold counts that it has not yet reported."""
        return not self.is_last and not self.is_silent(now_ms)

    def doubts(self, now_ms: int) -> list[Doubt]:
        """Which buckets it may have counted messages of that it did not report: as windows of their times."""
        found = [Doubt(gap.start, gap.end, gap.low_ms - self.lag_ms, gap.high_ms + self.ahead_ms) for gap in self.gaps]
        if self.is_silent(now_ms):
            last_ms = self.sent_ms + SILENT_INTERVALS * self.interval_ms
            found.append(Doubt(self.seen.end, self.seen.end, self.sent_ms - self.lag_ms, last_ms + self.ahead_ms))
        return found

    def lost_reports(self) -> int:
        """How many reports did not come."""
        return self.seen.end - len(self.seen) if self.seen else 0

    def _note_times(self, report: Report, sent_ms: int) -> None:
        self.lag_ms = max(self.lag_ms, report.interval_ms)
        for count in report.counts:
            if count.bucket >= 0:
                self.lag_ms = max(self.lag_ms, sent_ms - count.bucket)
                self.ahead_ms = max(self.ahead_ms, count.bucket + report.bucket_ms - sent_ms)
        if report.progress_ms is not None:
            self.lag_ms = max(self.lag_ms, sent_ms - self._believed(report.progress_ms, sent_ms))

    def _believed(self, time_ms: int, arrived_ms: int) -> int:
        if abs(time_ms - arrived_ms) > MAX_CLOCK_SKEW_MS:
            self.has_wrong_clock = True
            return arrived_ms
        return min(time_ms, arrived_ms)

    def _note_gaps(self, sequence: int, sent_ms: int) -> None:
        expected = self.seen.end if self.seen else 0
        if sequence > expected:
            self.gaps.append(Doubt(expected, sequence, min(self.sent_ms, sent_ms) if self.seen else sent_ms, sent_ms))
        for gap in self.gaps:
            if gap.start - 1 <= sequence <= gap.end:
                gap.widen(sent_ms, sent_ms)
        known = self.seen | OffsetSet((sequence, sequence + 1))
        self.gaps = [gap for gap in self.gaps if OffsetSet((gap.start, gap.end)) - known]
        while len(self.gaps) > MAX_GAPS:
            first, second = self.gaps[:2]
            first.start, first.end = min(first.start, second.start), max(first.end, second.end)
            first.widen(second.low_ms, second.high_ms)
            del self.gaps[1]


def _digest(report: Report) -> int:
    """The same in every process, which Python's hash is not: the state outlives them."""
    counts = [(count.bucket, count.partition, count.count, count.bytes) for count in report.counts]
    return crc32(repr((counts, report.read, report.sent_ms)).encode())


def _bounded(seen: OffsetSet) -> OffsetSet:
    """Without the oldest of very many gaps."""
    return seen if len(seen.bounds) <= 2 * MAX_GAPS else OffsetSet((seen.bounds[0], *seen.bounds[3:]))
