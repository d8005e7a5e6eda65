"""A small world of messages, tiers and reports, with all that can go wrong, and what the audit has to say of it by counting on fingers.

Messages are written to a live log of two partitions by producers that report, and some by one that does not. A mirror copies the log, and a
consumer reads it. Reports are sent twice, consumers read again, readers race, processes are started anew; sequences have no gap
unless the world is asked to lose reports.
"""

from collections import Counter as Multiset
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from millstream.audit.counter import Counter
from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import Count, Kind, Origin, ReadRange, Report

BUCKET_MS = 600_000
BUCKETS = (0, BUCKET_MS, 2 * BUCKET_MS)
PARTITIONS = (0, 1)
NOW_MS = 10_000_000
Message = tuple[int, int, int]
"""Partition, offset, bucket."""


def origin(tier: str, kind: Kind, cluster: str = "live", target: str = "") -> Origin:
    return Origin(tier, kind, "app", "host", "dc", cluster, target)


PRODUCER = origin("web", Kind.PRODUCER)
LIVE = origin("broker", Kind.BROKER)
MIRROR = origin("copy", Kind.MIRROR, "live", "offline")
OFFLINE = origin("broker", Kind.BROKER, "offline")
CONSUMER = origin("billing", Kind.CONSUMER)


@dataclass
class World:
    """What happened, and the reports of it, by stream: those of one stream come in order."""

    random: Random
    reports_all: bool = False
    """Whether producers report everything that is written."""
    deletes: bool = False
    """Whether parts of the live log are deleted before they are counted."""
    log: list[Message] = field(default_factory=list)
    unreported: set[Message] = field(default_factory=set)
    deleted: set[Message] = field(default_factory=set)
    copied: set[Message] = field(default_factory=set)
    arrived: set[Message] = field(default_factory=set)
    handled: Multiset[Message] = field(default_factory=Multiset)
    streams: list[list[Report]] = field(default_factory=list)
    sends_offsets: bool = False

    def build(self) -> "World":
        self._write()
        self._produce()
        self._read_log(LIVE, self.log)
        self._mirror()
        self._read_log(OFFLINE, sorted(self.arrived))
        self._consume()
        return self

    def reports(self) -> list[Report]:
        """All reports, the streams mixed at random, some of them again."""
        streams = [list(stream) for stream in self.streams if stream]
        mixed: list[Report] = []
        while streams:
            stream = self.random.choice(streams)
            mixed.append(stream.pop(0))
            if self.random.random() < 0.2:
                mixed.append(self.random.choice(mixed))
            streams = [one for one in streams if one]
        return mixed

    def _write(self) -> None:
        ends = dict.fromkeys(PARTITIONS, 0)
        for _ in range(self.random.randint(1, 40)):
            partition = self.random.choice(PARTITIONS)
            # A gap is a marker of a transaction, or what compaction left.
            ends[partition] += self.random.choice((1, 1, 1, 2))
            self.log.append((partition, ends[partition], self.random.choice(BUCKETS)))

    def _produce(self) -> None:
        self.sends_offsets = self.random.random() < 0.5
        self.unreported = {message for message in self.log if not self.reports_all and self.random.random() < 0.1}
        counters: list[Counter] = []
        for part in self._in_parts([message for message in self.log if message not in self.unreported]):
            if not counters or self.random.random() < 0.2:
                counters.append(self._counter(PRODUCER))
                self.streams.append([])
            for partition, offset, bucket in part:
                counters[-1].add("t", bucket + 5, 1, partition, offset=offset if self.sends_offsets else None)
            self.streams[-1] += counters[-1].take(NOW_MS, is_last=self.random.random() < 0.3)
        for number, counter in enumerate(counters):
            self.streams[number] += counter.take(NOW_MS, is_last=True)

    def _mirror(self) -> None:
        self.copied = {message for message in self.log if self.random.random() < 0.9}
        self.arrived = {message for message in self.copied if self.random.random() < 0.9}
        # What the mirror had copied when it was killed it never reported.
        reported = [
            message for message in self.log if message in self.copied and (message not in self.arrived or self.random.random() < 0.9)
        ]
        counter = self._counter(MIRROR)
        stream: list[Report] = []
        for part in self._in_parts(reported):
            for partition, offset, _ in part:
                counter.add_range("t", partition, offset, offset + 1, size=1)
            stream += counter.take(NOW_MS)
            if self.random.random() < 0.2:
                counter = self._counter(MIRROR)
        self.streams.append([*stream, *counter.take(NOW_MS, is_last=True)])

    def _consume(self) -> None:
        self.handled = Multiset(message for message in self.log if self.random.random() < 0.9)
        self.handled.update(message for message in list(self.handled) if self.random.random() < 0.2)
        counter = self._counter(CONSUMER)
        stream: list[Report] = []
        for part in self._in_parts(sorted(self.handled.elements(), key=lambda _: self.random.random())):
            for partition, offset, bucket in part:
                counter.add("t", bucket + 5, 1, partition, offset=offset)
            stream += counter.take(NOW_MS)
            if self.random.random() < 0.2:
                counter = self._counter(CONSUMER)
        self.streams.append([*stream, *counter.take(NOW_MS, is_last=True)])

    def _read_log(self, by: Origin, messages: Iterable[Message]) -> None:
        """Two readers of one log: what one of them reads behind the other is not to be counted."""
        stream: list[Report] = []
        for partition in PARTITIONS:
            reached = 0
            for part in self._in_parts([message for message in messages if message[0] == partition]):
                end = part[-1][1] + 1
                if self.deletes and by is LIVE and self.random.random() < 0.4:
                    self.deleted.update(part)
                counted = [message for message in part if by is not LIVE or message not in self.deleted]
                read = self._read_report(by, partition, ReadRange(partition, reached, end), counted)
                stream.append(read)
                if self.random.random() < 0.3:
                    stream.append(self._read_report(by, partition, ReadRange(partition, max(reached - 1, 0), end + 3), part))
                reached = end
        self.streams.append(stream)

    def _read_report(self, by: Origin, partition: int, covered: ReadRange, part: list[Message]) -> Report:
        counts = tuple(
            Count(bucket, len(offsets), len(offsets), partition, control=1, offsets=OffsetSet.from_offsets(offsets))
            for bucket in BUCKETS
            if (offsets := [offset for _, offset, at in part if at == bucket])
        )
        return Report(self._uuid(), 0, by, "t", BUCKET_MS, NOW_MS, 10_000, is_last=True, progress_ms=NOW_MS, counts=counts, read=(covered,))

    def _counter(self, by: Origin) -> Counter:
        return Counter(by, bucket_ms=BUCKET_MS, reporter=self._uuid())

    def _uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def _in_parts(self, messages: list[Message]) -> list[list[Message]]:
        parts = []
        rest = messages
        while rest:
            size = self.random.randint(1, 8)
            parts.append(rest[:size])
            rest = rest[size:]
        return parts
