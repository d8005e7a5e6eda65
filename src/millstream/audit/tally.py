"""What was counted of one bucket and partition since the last report: number, bytes, offsets and delays.

Offsets come as runs; a run that goes on where the last one ended costs nothing. An offset that was counted twice (a consumer that went
back) is reported twice, in a count of its own, so that the auditor sees the repeat.

Delays are kept as numbers per power of two, each cut into eight: a percentile is right within an eighth, in a few hundred bytes.
"""

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import Count, Delay

_EXACT_BITS = 4
"""Delays below 16 ms have a class each; above, an octave has eight."""


class Tally:
    """Messages of one bucket and partition. `count`, `bytes`, `malformed`, `control` and `aborted` may be added to directly."""

    __slots__ = ("_delays", "_end", "_runs", "_start", "aborted", "bytes", "control", "count", "malformed")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.malformed = 0
        self.control = 0
        self.aborted = 0
        self._start = self._end = -1
        self._runs: list[tuple[int, int]] = []
        self._delays: dict[int, list[int]] = {}

    @property
    def runs(self) -> int:
        """How many runs of offsets it has."""
        return len(self._runs) + (self._end > self._start)

    def add_offsets(self, start: int, end: int) -> None:
        """The offsets of messages that `count` has, or will have."""
        if start == self._end:
            self._end = end
            return
        if self._end > self._start:
            self._runs.append((self._start, self._end))
        self._start, self._end = start, end

    def add_delay(self, delay_ms: int, count: int) -> None:
        """So many messages were counted so long after their time; a clock that is behind makes no delay negative."""
        delay_ms = max(delay_ms, 0)
        shift = max(delay_ms.bit_length() - _EXACT_BITS, 0)
        of_class = self._delays.get((shift << _EXACT_BITS) + (delay_ms >> shift))
        if of_class is None:
            self._delays[(shift << _EXACT_BITS) + (delay_ms >> shift)] = [count, delay_ms * count, delay_ms]
        else:
            of_class[0] += count
            of_class[1] += delay_ms * count
            of_class[2] = max(of_class[2], delay_ms)

    def counts(self, bucket: int, partition: int) -> list[Count]:
        """What is to be reported: one count, and one more for each further time that offsets were counted again."""
        layers = _layers(self._all_runs())
        if not layers:
            return [self._count(bucket, partition, self.count, self.bytes, None)]
        counted = sum(map(len, layers))
        counts = []
        rest = self.bytes
        for repeat in layers[:0:-1]:
            size = self.bytes * len(repeat) // counted
            rest -= size
            counts.append(Count(bucket, len(repeat), size, partition, offsets=repeat.coarsened()))
        return [self._count(bucket, partition, len(layers[0]), rest, layers[0].coarsened()), *counts]

    def _count(self, bucket: int, partition: int, count: int, size: int, offsets: OffsetSet | None) -> Count:
        return Count(bucket, count, size, partition, self.malformed, self.control, self.aborted, self._delay(), offsets)

    def _all_runs(self) -> list[tuple[int, int]]:
        return [*self._runs, (self._start, self._end)] if self._end > self._start else self._runs

    def _delay(self) -> Delay | None:
        if not self._delays:
            return None
        classes = [self._delays[index] for index in sorted(self._delays)]
        count = sum(number for number, _, _ in classes)
        return Delay(
            mean=sum(total for _, total, _ in classes) // count,
            p95=_percentile(classes, count * 95 // 100),
            p99=_percentile(classes, count * 99 // 100),
            max=classes[-1][2],
        )


def _percentile(classes: list[list[int]], rank: int) -> int:
    """The largest delay of the class in which the message of this rank is."""
    for number, _, largest in classes:
        if rank < number:
            return largest
        rank -= number
    return classes[-1][2]


def _layers(runs: list[tuple[int, int]]) -> list[OffsetSet]:
    """The runs as sets: all offsets, then those that came twice, three times, and so on."""
    layers = []
    while runs:
        union = OffsetSet.of(*runs)
        layers.append(union)
        if sum(end - start for start, end in runs) == len(union):
            break
        runs = _overlaps(sorted(runs))
    return layers


def _overlaps(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of sorted runs was in one before; an offset that came n times is in n - 1 of them."""
    found = []
    reached = runs[0][0]
    for start, end in runs:
        if start < reached:
            found.append((start, min(end, reached)))
        reached = max(reached, end)
    return found
