"""What a tier counted and has not yet reported, and the reports it makes of it.

    counter = Counter(origin)
    counter.add("orders", timestamp_ms, 120, partition=3, offset=4711)        one message
    counter.add_batch("orders", timestamp_ms, 500, 60_000, partition=3)       many of one time: the way of producers
    for report in counter.take(now_ms): ...                                   every `interval_ms`, and at once when `says_hello`

A topic that is touched for the first time is to be announced at once, before its messages leave: only then it is known that this reporter
existed, should it be killed. A topic of which nothing was counted for a whole interval gets a report that is its last one for now, and
nothing more until it is touched again, so that thousands of idle topics cost nothing.

Not for several threads at once: who has them takes a lock around the calls.
"""

from collections.abc import Iterator
from typing import Final
from uuid import UUID, uuid4

from millstream.audit.reports.report import (
    ANY_BUCKET,
    ANY_PARTITION,
    DEFAULT_BUCKET_MS,
    DEFAULT_INTERVAL_MS,
    NO_TIME,
    Count,
    Origin,
    Report,
)
from millstream.audit.tally import Tally

MAX_REPORT_BYTES: Final = 200_000
COUNT_BYTES: Final = 250
BOUND_BYTES: Final = 10
_ANY: Final = -1 << 62
"""Stands for `ANY_BUCKET` among numbers of buckets."""


class Counter:
    """Counts of all topics of one reporter, between two publications."""

    def __init__(
        self,
        origin: Origin,
        *,
        bucket_ms: int = DEFAULT_BUCKET_MS,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        reporter: UUID | None = None,
    ) -> None:
        self.reporter = reporter or uuid4()
        self._origin = origin
        self._bucket_ms = bucket_ms
        self._interval_ms = interval_ms
        self._tallies: dict[tuple[str, int, int], Tally] = {}
        self._sequences: dict[str, int] = {}
        self._awake: set[str] = set()
        """Topics that were announced and are not at rest."""
        self._touched: set[str] = set()
        """Topics of which something was counted since the last reports."""

    @property
    def says_hello(self) -> bool:
        """Whether a topic is to be announced: `take` should not wait for the interval."""
        return not self._touched <= self._awake

    def touch(self, topic: str) -> None:
        """The topic is about to be used: announce it."""
        self._touched.add(topic)

    def add(
        self,
        topic: str,
        timestamp_ms: int,
        size: int,
        partition: int = ANY_PARTITION,
        *,
        offset: int | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """One message; a negative time is none."""
        tally = self._tallies.get((topic, partition, timestamp_ms // self._bucket_ms))
        if tally is None:
            tally = self._new_tally(topic, partition, timestamp_ms // self._bucket_ms)
        tally.count += 1
        tally.bytes += size
        if offset is not None:
            tally.add_offsets(offset, offset + 1)
        if delay_ms is not None:
            tally.add_delay(delay_ms, 1)

    def add_batch(
        self,
        topic: str,
        timestamp_ms: int,
        count: int,
        size: int,
        *,
        partition: int = ANY_PARTITION,
        first_offset: int | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """Messages of one bucket; with `first_offset`, their offsets follow each other from there."""
        tally = self._tallies.get((topic, partition, timestamp_ms // self._bucket_ms))
        if tally is None:
            tally = self._new_tally(topic, partition, timestamp_ms // self._bucket_ms)
        tally.count += count
        tally.bytes += size
        if first_offset is not None:
            tally.add_offsets(first_offset, first_offset + count)
        if delay_ms is not None:
            tally.add_delay(delay_ms, count)

    def add_range(self, topic: str, partition: int, start: int, end: int, size: int = 0) -> None:
        """Offsets that were passed on without a look at their times; every one of them has to be a message."""
        tally = self._tallies.get((topic, partition, _ANY)) or self._new_tally(topic, partition, _ANY)
        tally.count += end - start
        tally.bytes += size
        tally.add_offsets(start, end)

    def add_malformed(self, topic: str, timestamp_ms: int, partition: int = ANY_PARTITION) -> None:
        """A message that was counted with `add` and could not be made sense of."""
        number = timestamp_ms // self._bucket_ms
        tally = self._tallies.get((topic, partition, number)) or self._new_tally(topic, partition, number)
        tally.malformed += 1

    def take(self, now_ms: int, *, progress_ms: int | None = None, is_last: bool = False) -> list[Report]:
        """The reports of everything since the last call, of at most about 200 kB each; with `is_last` there will be no more."""
        counts = self._take_counts()
        reports = []
        for topic in sorted(self._awake | self._touched):
            rests = is_last or topic not in self._touched
            for part, is_end in _in_parts(counts.get(topic, [])):
                reports.append(self._report(topic, part, now_ms, progress_ms, is_last=rests and is_end))
            if rests:
                self._awake.discard(topic)
            else:
                self._awake.add(topic)
        self._touched.clear()
        return reports

    def _new_tally(self, topic: str, partition: int, number: int) -> Tally:
        self._touched.add(topic)
        tally = self._tallies[topic, partition, number] = Tally()
        return tally

    def _take_counts(self) -> dict[str, list[Count]]:
        tallies, self._tallies = self._tallies, {}
        counts: dict[str, list[Count]] = {}
        for (topic, partition, number), tally in tallies.items():
            bucket = number * self._bucket_ms if number >= 0 else ANY_BUCKET if number == _ANY else NO_TIME
            counts.setdefault(topic, []).extend(tally.counts(bucket, partition))
        return counts

    def _report(self, topic: str, counts: tuple[Count, ...], now_ms: int, progress_ms: int | None, *, is_last: bool) -> Report:
        sequence = self._sequences.get(topic, 0)
        self._sequences[topic] = sequence + 1
        return Report(
            reporter=self.reporter,
            sequence=sequence,
            origin=self._origin,
            topic=topic,
            bucket_ms=self._bucket_ms,
            sent_ms=now_ms,
            interval_ms=self._interval_ms,
            is_last=is_last,
            progress_ms=progress_ms,
            counts=counts,
        )


def _in_parts(counts: list[Count]) -> Iterator[tuple[tuple[Count, ...], bool]]:
    """The counts in parts that fit into a message each, with whether it is the last part; one part even if there is nothing."""
    part: list[Count] = []
    size = 0
    for count in counts:
        added = COUNT_BYTES + BOUND_BYTES * (len(count.offsets.bounds) if count.offsets else 0)
        if part and size + added > MAX_REPORT_BYTES:
            yield tuple(part), False
            part, size = [], 0
        part.append(count)
        size += added
    yield tuple(part), True
