"""How many messages of a partition fall into each bucket of time, and which offsets they have: for the audit of a load.

Messages mostly come in the order of their times, so the offsets of a bucket are a few intervals. Where they do not, the intervals of
buckets would be as many as the messages: past `MOST_RUNS` of them the partition keeps its offsets without buckets, and the buckets only
their counts. The auditor then finds the buckets by the offsets (`ANY_BUCKET`). Where even the offsets have too many gaps (a compacted
topic), only counts are left. No loop over messages.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_BUCKET, NO_TIME, Count

if TYPE_CHECKING:
    # The process that plans a load comes here, and numba would take it a fifth of a second.
    from millstream.arrow.kernels.compiled import Flags, Ints

MOST_RUNS: Final = 500
MOST_GAPS: Final = 10_000
_US_PER_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class BucketCount:
    """Messages of one bucket of one partition. `bounds` are the starts and ends of intervals of offsets; None where they are not kept."""

    partition: int
    bucket: int
    count: int
    bytes: int
    malformed: int
    bounds: tuple[int, ...] | None

    def document(self) -> list[Any]:
        """The form in commits."""
        return [self.partition, self.bucket, self.count, self.bytes, self.malformed, self.bounds]

    @classmethod
    def of(cls, document: Sequence[Any]) -> "BucketCount":
        """What `document` made."""
        partition, bucket, count, size, malformed, bounds = document
        return cls(partition, bucket, count, size, malformed, None if bounds is None else tuple(bounds))


class PartitionCounts:
    """The counts of one partition, in the order of its offsets."""

    def __init__(self, partition: int, bucket_ms: int) -> None:
        self._partition = partition
        self._bucket_ms = bucket_ms
        self._sums: dict[int, list[int]] = {}
        self._bounds: dict[int, list[int]] = {}
        self._all: list[int] = []
        self._runs = 0

    def add(self, offsets: "Ints", timestamps_us: "Ints", sizes: "Ints", is_malformed: "Flags | None") -> None:
        """Count messages: their offsets, ascending, their times, the bytes of key and value, and which could not be read."""
        if not len(offsets):
            return
        milliseconds = timestamps_us // _US_PER_MS
        buckets = np.where(timestamps_us < 0, NO_TIME, milliseconds - milliseconds % self._bucket_ms)
        self._add_sums(buckets, sizes, is_malformed)
        is_gap = np.diff(offsets) != 1
        if len(self._all) <= 2 * MOST_GAPS:
            self._add_offsets(offsets, np.flatnonzero(is_gap))
        if self._runs <= MOST_RUNS:
            self._add_runs(offsets, buckets, np.flatnonzero(is_gap | (np.diff(buckets) != 0)))

    def counts(self) -> list[BucketCount]:
        """The counts; with an entry of its own for offsets without buckets, where those of buckets were too many."""
        is_fragmented = self._runs > MOST_RUNS
        counted = [
            BucketCount(self._partition, bucket, count, size, malformed, None if is_fragmented else tuple(self._bounds[bucket]))
            for bucket, (count, size, malformed) in sorted(self._sums.items())
        ]
        if is_fragmented and len(self._all) <= 2 * MOST_GAPS:
            count, size, malformed = map(sum, zip(*self._sums.values(), strict=True))
            counted.append(BucketCount(self._partition, ANY_BUCKET, count, size, malformed, tuple(self._all)))
        return counted

    def _add_sums(self, buckets: "Ints", sizes: "Ints", is_malformed: "Flags | None") -> None:
        different, where = np.unique(buckets, return_inverse=True)
        rows = np.bincount(where)
        size = np.bincount(where, weights=sizes)
        malformed = np.bincount(where, weights=is_malformed) if is_malformed is not None else np.zeros(len(different))
        for index, bucket in enumerate(different.tolist()):
            sums = self._sums.setdefault(bucket, [0, 0, 0])
            sums[0] += int(rows[index])
            sums[1] += int(size[index])
            sums[2] += int(malformed[index])

    def _add_runs(self, offsets: "Ints", buckets: "Ints", breaks: "Ints") -> None:
        self._runs += len(breaks) + 1
        if self._runs > MOST_RUNS:
            self._bounds.clear()
            return
        starts, ends = np.append(0, breaks + 1), np.append(breaks, len(offsets) - 1)
        for bucket, first, last in zip(buckets[starts].tolist(), offsets[starts].tolist(), offsets[ends].tolist(), strict=True):
            _append(self._bounds.setdefault(bucket, []), first, last + 1)

    def _add_offsets(self, offsets: "Ints", gaps: "Ints") -> None:
        starts, ends = np.append(0, gaps + 1), np.append(gaps, len(offsets) - 1)
        edges = np.stack([offsets[starts], offsets[ends] + 1], axis=1).ravel().tolist()
        if self._all and self._all[-1] == edges[0]:
            self._all[-1:] = edges[1:]
        else:
            self._all += edges


def audit_counts(counted: Iterable[BucketCount]) -> list[Count]:
    """The counts as the audit takes them: each message once, with its offset."""
    known = list(counted)
    fragmented = {one.partition for one in known if one.bucket == ANY_BUCKET}
    return [
        Count(
            one.bucket,
            one.count,
            one.bytes,
            partition=one.partition,
            malformed=one.malformed,
            offsets=None if one.bounds is None else OffsetSet(one.bounds).coarsened(),
        )
        for one in known
        if (one.bucket == ANY_BUCKET) == (one.partition in fragmented)
    ]


def _append(bounds: list[int], start: int, end: int) -> None:
    if bounds and bounds[-1] == start:
        bounds[-1] = end
    else:
        bounds += (start, end)
