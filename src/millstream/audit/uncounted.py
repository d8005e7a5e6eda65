"""What of a log was gone before it was counted: deleted by retention or DeleteRecords, or compacted away.

A reader of logs says which offsets it covered (`ReadRange`) and what it counted there. A range without anything in it is what the reader
skipped, because the log began later by then. An offset that is missing between others was compacted away, or is the damage that an audit is
to find: a mirror copies logs with their gaps, so only the log that producers write to is given the benefit of the doubt.

Which buckets the messages were of is not known, but when they were written is: after the log was last read to its end, and before the
reader saw that they are gone. So a bucket is concerned if its producers reported of it since, and it had begun by then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from millstream.audit.offset_set import EMPTY, OffsetSet
from millstream.audit.reports.report import Report

MAX_WINDOWS: Final = 100
MAX_SKIPPED: Final = 1_000
"""Ranges of one partition: of more, those that are closest become one."""


class Window(NamedTuple):
    """Times between which messages were written, in milliseconds since 1970."""

    low_ms: int
    high_ms: int


@dataclass(slots=True)
class Uncounted:
    """Messages of one topic's log that nothing can be said about."""

    at_end_ms: int = 0
    """When the log had last been read to its end."""
    skipped: dict[int, OffsetSet] = field(default_factory=dict)
    """Per partition, offsets that were gone when the reader came."""
    skips: list[Window] = field(default_factory=list)
    """When these may have been written."""
    gaps: list[Window] = field(default_factory=list)
    """The same of offsets that are missing between others."""

    def note(self, report: Report, *, arrived_ms: int) -> None:
        """Follow a report of whoever reads the log, which is counted."""
        found: dict[int, int] = {}
        for count in report.counts:
            number = count.count if count.offsets is None else len(count.offsets)
            found[count.partition] = found.get(count.partition, 0) + number + count.control + count.aborted + count.malformed
        seen_ms = min(report.sent_ms, arrived_ms)
        window = Window(self.at_end_ms, seen_ms)
        for partition, start, end in report.read:
            if start < end and not found.get(partition):
                known = self.skipped.get(partition, EMPTY) | OffsetSet((start, end))
                self.skipped[partition] = OffsetSet(known.coarsened(MAX_SKIPPED).bounds)
                self.skips = _joined([*self.skips, window])
            elif found.get(partition, 0) < end - start:
                self.gaps = _joined([*self.gaps, window])
        if report.progress_ms == report.sent_ms:
            # Two clocks are compared: that of the reader, and that of the broker.
            self.at_end_ms = max(self.at_end_ms, seen_ms - report.interval_ms)

    def of(self, partition: int) -> OffsetSet:
        """Offsets of a partition that were skipped."""
        return self.skipped.get(partition, EMPTY)

    def forget_offsets(self) -> None:
        """The topic was created anew: its offsets stand for other messages."""
        self.skipped.clear()

    def merge(self, other: "Uncounted") -> None:
        """What another part of the same tier's history has."""
        self.at_end_ms = max(self.at_end_ms, other.at_end_ms)
        for partition, offsets in other.skipped.items():
            self.skipped[partition] = self.of(partition) | offsets
        self.skips = _joined([*self.skips, *other.skips])
        self.gaps = _joined([*self.gaps, *other.gaps])


def _joined(windows: Iterable[Window]) -> list[Window]:
    """The windows in order, those that touch as one; of too many, the closest as one."""
    joined: list[Window] = []
    for window in sorted(windows):
        if joined and window.low_ms <= joined[-1].high_ms:
            joined[-1] = Window(joined[-1].low_ms, max(joined[-1].high_ms, window.high_ms))
        else:
            joined.append(window)
    while len(joined) > MAX_WINDOWS:
        distances = [after.low_ms - before.high_ms for before, after in pairwise(joined)]
        at = distances.index(min(distances))
        joined[at : at + 2] = [Window(joined[at].low_ms, joined[at + 1].high_ms)]
    return joined
