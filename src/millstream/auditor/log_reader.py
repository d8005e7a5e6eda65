"""The broker's tier: reads the logs of topics from where the reports about them end, and reports what is in them.

The position is that of the ledger, which takes a report only if it begins where the last one ended. So there is nothing to remember here: a
reader that was killed, or that another one was faster than, goes on where the ledger is. Of each topic one report is under way at a time,
and each is the last one for now: nothing is held back. Without anything new it is only said, where a bucket waits for it, that the log was
read to its end. A topic that was deleted and created anew, which shows by its id, is read from its beginning.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple, TypeAlias
from uuid import uuid4

from millstream.audit.counter import MAX_REPORT_BYTES
from millstream.audit.ledger import Ledger
from millstream.audit.reports.report import Count, Kind, Origin, ReadRange, Report
from millstream.audit.topic_head import Tier
from millstream.auditor.log_counter import LogCounter
from millstream.auditor.settings import BROKER_TIER
from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import READ_COMMITTED, FetchFrom
from millstream.client.portions import portions
from millstream.errors import KafkaError, OffsetOutOfRange
from millstream.offset import EARLIEST, LATEST
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

FETCH_BYTES: Final = 8 << 20
TOPICS_PER_REQUEST: Final = 50
PARTITIONS_PER_REQUEST: Final = 200
"""A broker answers one request after the other: other clients are not to wait for a large one."""
INTERVAL_MS: Final = 10_000
MOST_BEHIND_MS: Final = 23 * 3_600_000
"""A progress that is older is taken for a wrong clock."""
ANSWER_MS: Final = 30_000
"""A report that has not come back by then was lost."""
PATIENCE_MS: Final = 60_000
"""A log that cannot be read for so long is not waited for."""


@dataclass(slots=True)
class _TopicReading:
    sequence: int = 0
    sent_ms: int = 0
    at_end_ms: int = 0
    """When all of the topic had been read."""
    is_waiting: bool = False
    stuck_since_ms: int | None = None
    """Since when nothing could be read, though the log has more, or has not been found."""
    is_gone: bool = False
    """Whether there is no such topic."""
    round: int = 0
    """In which round it was last looked at."""


class LogEnd(NamedTuple):
    """Up to where a partition can be counted."""

    offset: int
    is_decided: bool
    """Whether that is the end of the log, and no transaction is open before it."""


class TopicEnds(NamedTuple):
    """A topic as the cluster has it."""

    topic_id: str | None
    partitions: dict[TopicPartition, LogEnd]
    is_whole: bool
    """Whether all partitions have a leader."""


Ends: TypeAlias = Mapping[str, TopicEnds]


class LogReader:
    """Reads the logs of one cluster; `read` gives the reports that are to be published."""

    def __init__(self, cluster: Cluster, origin: Origin, *, bucket_ms: int) -> None:
        self._cluster = cluster
        self._origin = origin
        self._bucket_ms = bucket_ms
        self._reporter = uuid4()
        self._topics: dict[str, _TopicReading] = {}
        self._complained: set[TopicPartition] = set()
        self._round = 0
        self._bytes_read = 0
        """In all rounds."""
        self._bytes_limit: float = inf
        """When so many bytes were read the round ends."""

    @property
    def tier(self) -> Tier:
        """The tier that it reports as."""
        return Tier.of(self._origin)

    def read(self, ledgers: Mapping[str, Ledger], *, now_ms: int, ends: Ends | None = None, most_bytes: float = inf) -> list[Report]:
        """What is new in the logs of these topics, one report at most for each; up to where they end now, or up to `ends`. A round is over
        when `most_bytes` were read; the next one begins with the topics that were left out."""
        ready = [topic for topic in ledgers if self._is_ready(topic, now_ms)]
        ready.sort(key=lambda topic: self._topics[topic].round)
        ends = self.ends(ready) if ends is None else ends
        reports = []
        self._round += 1
        self._bytes_limit = self._bytes_read + most_bytes
        for topic in ready:
            if self._bytes_read >= self._bytes_limit:
                break
            reading = self._topics[topic]
            reading.round = self._round
            reading.is_gone = topic not in ends
            if reading.is_gone:
                reading.stuck_since_ms = reading.stuck_since_ms or now_ms
            elif (report := self._read_topic(ledgers[topic], ends[topic], now_ms)) is not None:
                reports.append(report)
        return reports

    def has_given_up(self, topic: str, now_ms: int) -> bool:
        """Whether the log of a topic could not be read for so long that nothing should wait for it."""
        reading = self._topics.get(topic)
        return reading is not None and reading.stuck_since_ms is not None and now_ms >= reading.stuck_since_ms + PATIENCE_MS

    def is_gone(self, topic: str, now_ms: int) -> bool:
        """Whether there has been no such topic for a while."""
        return self.has_given_up(topic, now_ms) and self._topics[topic].is_gone

    def forget(self, topic: str) -> None:
        """The topic is not read any more."""
        self._topics.pop(topic, None)
        self._forget_complaints(topic)

    def announcement(self, topic: str, *, now_ms: int) -> Report:
        """A report that says nothing but that the log of a topic is to be read."""
        return Report(
            uuid4(), 0, self._origin, topic, self._bucket_ms, now_ms, INTERVAL_MS, is_last=True, progress_ms=now_ms - MOST_BEHIND_MS
        )

    def has_sent(self, report: Report) -> bool:
        """Whether the report is this reader's."""
        return report.reporter == self._reporter

    def came_back(self, report: Report) -> None:
        """A report was read from `_audit`: the topic may be read on if it was ours."""
        if self.has_sent(report) and (reading := self._topics.get(report.topic)) is not None:
            reading.is_waiting = False

    def _is_ready(self, topic: str, now_ms: int) -> bool:
        reading = self._topics.setdefault(topic, _TopicReading())
        return not reading.is_waiting or now_ms > reading.sent_ms + ANSWER_MS

    def ends(self, topics: Collection[str]) -> Ends:
        """By topic, the end of each partition, as far as transactions are decided; topics that are gone are left out."""
        ends: dict[str, TopicEnds] = {}
        for some in portions(topics, TOPICS_PER_REQUEST):
            ends |= self._ends_of(some)
        return ends

    def _ends_of(self, topics: Collection[str]) -> Ends:
        known = self._cluster.refresh(topics).topics
        found = {topic: known[topic] for topic in topics if topic in known and not known[topic].error_code}
        led = {
            topic: [TopicPartition(topic, number) for number, one in metadata.partitions.items() if one.leader >= 0]
            for topic, metadata in found.items()
        }
        ends: dict[TopicPartition, LogEnd] = {}
        for places in portions((place for some in led.values() for place in some), PARTITIONS_PER_REQUEST):
            # In this order: what is written between the two questions does not look like a transaction.
            written = self._cluster.offsets(dict.fromkeys(places, LATEST))
            decided = self._cluster.offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
            ends |= {place: LogEnd(decided[place].offset, decided[place].offset >= written[place].offset) for place in places}
        return {
            topic: TopicEnds(
                str(metadata.topic_id) if metadata.topic_id is not None else None,
                {place: ends[place] for place in led[topic]},
                is_whole=len(led[topic]) == len(metadata.partitions),
            )
            for topic, metadata in found.items()
        }

    def _read_topic(self, ledger: Ledger, log: TopicEnds, now_ms: int) -> Report | None:
        head = ledger.head.tiers.get(self.tier)
        if head is not None and None not in (head.topic_id, log.topic_id) and head.topic_id != log.topic_id:
            self._forget_complaints(ledger.topic)
            head = None
        counts: list[Count] = []
        read: list[ReadRange] = []
        is_at_end = log.is_whole
        size = 0
        starts = {place: head.position(place.partition) if head is not None else 0 for place in log.partitions}
        # Those that are behind most come first, in case not all fit into the report, or the round.
        for place in sorted(starts, key=lambda place: starts[place] - log.partitions[place].offset):
            start, (end, is_decided) = starts[place], log.partitions[place]
            is_at_end &= is_decided
            if start >= end:
                self._complain_if_shorter(place, start, end)
                continue
            counter = self._count(place, start, end)
            is_at_end &= counter.next_offset >= end
            if counter.next_offset == start:
                continue
            counts += [count for bucket, tally in counter.tallies.items() for count in tally.counts(bucket, place.partition)]
            read.append(ReadRange(place.partition, start, counter.next_offset))
            size += counter.report_bytes
            if size > MAX_REPORT_BYTES or self._bytes_read >= self._bytes_limit:
                is_at_end = False
                break
        reading = self._topics[ledger.topic]
        # Behind a transaction that is open there is nothing to read: whoever waits for it waits for the transaction.
        is_held_up = not is_at_end and not read and not any(not end.is_decided for end in log.partitions.values())
        reading.stuck_since_ms = reading.stuck_since_ms or now_ms if is_held_up else None
        # Once it is said that there is a log, for which buckets wait; then only what is new of it.
        if not read and not ((is_at_end or head is None) and self._is_due(ledger, now_ms)):
            return None
        if is_at_end:
            reading.at_end_ms = now_ms
        progress_ms = max(reading.at_end_ms, now_ms - MOST_BEHIND_MS)
        return self._report(ledger.topic, tuple(counts), tuple(read), now_ms, progress_ms=progress_ms, topic_id=log.topic_id)

    def _is_due(self, ledger: Ledger, now_ms: int) -> bool:
        """Whether a bucket that is over waits for the log to be read to its end."""
        at_end_ms = self._topics[ledger.topic].at_end_ms
        for bucket in ledger.buckets.values():
            end_ms = bucket.start + ledger.bucket_ms if bucket.start >= 0 else 0
            due_ms = max(end_ms if end_ms <= now_ms + MOST_BEHIND_MS else 0, bucket.arrived_ms)
            if at_end_ms <= due_ms <= now_ms:
                return True
        return False

    def _count(self, place: TopicPartition, start: int, end: int) -> LogCounter:
        counter = LogCounter(place, start=start, end=end, bucket_ms=self._bucket_ms)
        try:
            fetched = self._cluster.fetch(FetchFrom(*place, start, FETCH_BYTES), max_wait_ms=0, isolation_level=READ_COMMITTED)
            self._bytes_read += len(fetched.records)
            counter.count(fetched.records, fetched.aborted_transactions or ())
            while counter.report_bytes > MAX_REPORT_BYTES and counter.next_offset > start + 1:
                # Event times at random: as much as fits into one report, the rest comes with the next ones.
                fits = max((counter.next_offset - start) * MAX_REPORT_BYTES // counter.report_bytes, 1)
                counter = LogCounter(place, start=start, end=start + fits, bucket_ms=self._bucket_ms)
                counter.count(fetched.records, fetched.aborted_transactions or ())
        except OffsetOutOfRange:
            # Retention was faster: what is gone is not counted.
            begin = self._cluster.offsets({place: EARLIEST})[place].offset
            counter.next_offset = min(max(begin, start), end)
        except KafkaError as error:
            if place not in self._complained:
                self._complained.add(place)
                logger.error("the log of %s cannot be read for the audit: %s", place, error)
        return counter

    def _forget_complaints(self, topic: str) -> None:
        self._complained = {place for place in self._complained if place.topic != topic}

    def _complain_if_shorter(self, place: TopicPartition, start: int, end: int) -> None:
        if start > end and place not in self._complained:
            self._complained.add(place)
            logger.error(
                "%s ends at offset %d and was counted up to %d: it lost records, and is counted on from there",
                place,
                end,
                start,
            )

    def _report(
        self, topic: str, counts: tuple[Count, ...], read: tuple[ReadRange, ...], now_ms: int, *, progress_ms: int, topic_id: str | None
    ) -> Report:
        reading = self._topics[topic]
        report = Report(
            reporter=self._reporter,
            sequence=reading.sequence,
            origin=self._origin,
            topic=topic,
            bucket_ms=self._bucket_ms,
            sent_ms=now_ms,
            interval_ms=INTERVAL_MS,
            is_last=True,
            progress_ms=progress_ms,
            counts=counts,
            read=read,
            topic_id=topic_id,
        )
        reading.sequence += 1
        reading.sent_ms, reading.is_waiting = now_ms, True
        return report


def broker_origin(*, cluster_id: str, host: str, datacentre: str) -> Origin:
    """Who counts the log of a cluster."""
    return Origin(BROKER_TIER, Kind.BROKER, "millstream-audit", host, datacentre, cluster_id)
