"""The broker's tier: reads the logs of topics from where the reports about them end, and reports what is in them.

The position is that of the ledger, which takes a report only if it begins where the last one ended. So there is nothing to remember here: a
reader that was killed, or that another one was faster than, goes on where the ledger is. Of each topic one report is under way at a time,
and each is the last one for now: nothing is held back. Without anything new it is only said, where a bucket waits for it, that the log was
read to its end. A topic that was deleted and created anew, which shows by its id, is read from its beginning.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import uuid4

from millstream.audit.ledger import Ledger
from millstream.audit.report import Count, Kind, Origin, ReadRange, Report
from millstream.audit.topic_head import Tier
from millstream.auditor.log_counter import LogCounter
from millstream.auditor.settings import BROKER_TIER
from millstream.client.cluster import Cluster
from millstream.client.fetch import READ_COMMITTED, FetchFrom
from millstream.errors import KafkaError, OffsetOutOfRange
from millstream.offset import EARLIEST, LATEST
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

FETCH_BYTES: Final = 8 << 20
MAX_BOUNDS: Final = 15_000
"""Intervals in one report: about 200 kB."""
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


class _Log(NamedTuple):
    """A topic as the cluster has it."""

    topic_id: str | None
    ends: dict[TopicPartition, int]
    is_whole: bool
    """Whether all partitions have a leader."""


class LogReader:
    """Reads the logs of one cluster; `read` gives the reports that are to be published."""

    def __init__(self, cluster: Cluster, origin: Origin, *, bucket_ms: int) -> None:
        self._cluster = cluster
        self._origin = origin
        self._bucket_ms = bucket_ms
        self._reporter = uuid4()
        self._topics: dict[str, _TopicReading] = {}
        self._complained: set[TopicPartition] = set()

    @property
    def tier(self) -> Tier:
        """The tier that it reports as."""
        return Tier.of(self._origin)

    def read(self, ledgers: Mapping[str, Ledger], *, now_ms: int) -> list[Report]:
        """What is new in the logs of these topics, one report at most for each."""
        ready = [topic for topic in ledgers if self._is_ready(topic, now_ms)]
        logs = self._logs(ready)
        reports = []
        for topic in ready:
            reading = self._topics[topic]
            reading.is_gone = topic not in logs
            if reading.is_gone:
                reading.stuck_since_ms = reading.stuck_since_ms or now_ms
            elif (report := self._read_topic(ledgers[topic], logs[topic], now_ms)) is not None:
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

    def came_back(self, report: Report) -> None:
        """A report was read from `_audit`: the topic may be read on if it was ours."""
        if report.reporter == self._reporter and (reading := self._topics.get(report.topic)) is not None:
            reading.is_waiting = False

    def _is_ready(self, topic: str, now_ms: int) -> bool:
        reading = self._topics.setdefault(topic, _TopicReading())
        return not reading.is_waiting or now_ms > reading.sent_ms + ANSWER_MS

    def _logs(self, topics: list[str]) -> dict[str, _Log]:
        """The logs with the end of each partition, as far as transactions are decided; topics that are gone are left out."""
        if not topics:
            return {}
        known = self._cluster.refresh(topics).topics
        found = {topic: known[topic] for topic in topics if topic in known and not known[topic].error_code}
        led = {
            topic: [TopicPartition(topic, number) for number, one in metadata.partitions.items() if one.leader >= 0]
            for topic, metadata in found.items()
        }
        places = [place for some in led.values() for place in some]
        ends = self._cluster.offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
        return {
            topic: _Log(
                str(metadata.topic_id) if metadata.topic_id is not None and metadata.topic_id.int else None,
                {place: ends[place].offset for place in led[topic]},
                is_whole=len(led[topic]) == len(metadata.partitions),
            )
            for topic, metadata in found.items()
        }

    def _read_topic(self, ledger: Ledger, log: _Log, now_ms: int) -> Report | None:
        head = ledger.head.tiers.get(self.tier)
        if head is not None and None not in (head.topic_id, log.topic_id) and head.topic_id != log.topic_id:
            self._forget_complaints(ledger.topic)
            head = None
        counts: list[Count] = []
        read: list[ReadRange] = []
        is_at_end = log.is_whole
        for place, end in log.ends.items():
            start = head.position(place.partition) if head is not None else 0
            if start >= end:
                self._complain_if_shorter(place, start, end)
                continue
            counter = self._count(place, start, end)
            is_at_end &= counter.is_done
            if counter.next_offset == start:
                continue
            found = [count for bucket, tally in counter.tallies.items() for count in tally.counts(bucket, place.partition)]
            counts += found
            read.append(ReadRange(place.partition, start, counter.next_offset))
            if sum(len(count.offsets.bounds) for count in counts if count.offsets is not None) > MAX_BOUNDS:
                is_at_end = False
                break
        reading = self._topics[ledger.topic]
        reading.stuck_since_ms = None if is_at_end or read else reading.stuck_since_ms or now_ms
        if not read and not self._is_due(ledger, now_ms):
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
