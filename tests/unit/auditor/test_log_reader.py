from collections.abc import Mapping, Sequence
from random import Random
from typing import cast
from uuid import UUID

import pytest

from millstream.audit.counter import MAX_REPORT_BYTES
from millstream.audit.ledger import Ledger
from millstream.audit.reports.report import Count, ReadRange, Report
from millstream.audit.reports.report_json import encode_report
from millstream.audit.verdict import Verdict, judge
from millstream.auditor.log_reader import PARTITIONS_PER_REQUEST, PATIENCE_MS, LogReader, broker_origin
from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import FetchedPartition, FetchFrom
from millstream.client.codecs.list_offsets import OffsetAndTime
from millstream.client.codecs.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from millstream.errors import OffsetOutOfRange
from millstream.offset import LATEST
from millstream.topic_partition import TopicPartition
from millstream.wire.records import Record, encode_batch
from tests.unit.audit.some_reports import report

NOW = 1_000_000_000_000
BUCKET_MS = 600_000


class OnePartition:
    """A cluster with one topic of one partition; what is after the last stable offset is not decided."""

    def __init__(self, times: Sequence[int], *, last_stable_offset: int | None = None, topic_id: int = 0) -> None:
        records = [Record(offset, time, b"k", b"v") for offset, time in enumerate(times)]
        self._batches = [encode_batch(records[start : start + 500]) for start in range(0, len(records), 500)]
        self._end = len(records)
        self._topic_id = UUID(int=topic_id)
        self.leader = 1
        self.is_gone = False
        self._stable = last_stable_offset if last_stable_offset is not None else self._end

    def refresh(self, topics: Sequence[str]) -> ClusterMetadata:
        partitions = {0: PartitionMetadata(0, self.leader, 0, (1,), (1,))}
        return ClusterMetadata(topics={} if self.is_gone else {"orders": TopicMetadata("orders", self._topic_id, 0, partitions)})

    def offsets(self, wanted: Mapping[TopicPartition, int], *, isolation_level: int = 0) -> dict[TopicPartition, OffsetAndTime]:
        return dict.fromkeys(wanted, OffsetAndTime(self._stable if isolation_level else self._end, -1))

    def fetch(self, wanted: FetchFrom, **_: object) -> FetchedPartition:
        records = memoryview(b"".join(self._batches[wanted.offset // 500 :]))
        return FetchedPartition("orders", 0, 0, self._end, self._stable, 0, (), -1, records)


class ManyTopics:
    """A cluster with topics of as many partitions as asked for, each with one record."""

    def __init__(self, topics: Sequence[str], partitions: int) -> None:
        self._batch = encode_batch([Record(0, NOW, b"k", b"v")])
        found = {number: PartitionMetadata(number, 1, 0, (1,), (1,)) for number in range(partitions)}
        self._topics = {name: TopicMetadata(name, UUID(int=1), 0, found) for name in topics}
        self.asked: list[int] = []
        """How many topics, or partitions, each request was about."""
        self.deleted_up_to = 0

    def refresh(self, topics: Sequence[str]) -> ClusterMetadata:
        self.asked.append(len(topics))
        return ClusterMetadata(topics={name: self._topics[name] for name in topics})

    def offsets(self, wanted: Mapping[TopicPartition, int], *, isolation_level: int = 0) -> dict[TopicPartition, OffsetAndTime]:
        self.asked.append(len(wanted))
        return {place: OffsetAndTime(1 if time == LATEST else self.deleted_up_to, -1) for place, time in wanted.items()}

    def fetch(self, wanted: FetchFrom, **_: object) -> FetchedPartition:
        if wanted.offset < self.deleted_up_to:
            raise OffsetOutOfRange
        return FetchedPartition(wanted.topic, wanted.partition, 0, 1, 1, 0, (), -1, memoryview(self._batch))


def reader_of(log: "OnePartition | ManyTopics") -> LogReader:
    return LogReader(cast(Cluster, log), broker_origin(cluster_id="live", host="h1", datacentre=""), bucket_ms=BUCKET_MS)


@pytest.mark.slow
def test_event_times_at_random_come_in_reports_that_every_topic_takes() -> None:
    random = Random(1)
    log = OnePartition([NOW - random.randrange(2_000) * BUCKET_MS for _ in range(20_000)])
    reader, ledger, sizes = reader_of(log), Ledger("orders"), []
    for offset in range(1_000):
        reports = reader.read({"orders": ledger}, now_ms=NOW)
        if not reports or not reports[0].read:
            break
        sizes.append(len(encode_report(reports[0])))
        ledger.apply(reports[0], offset=offset, arrived_ms=NOW)
        reader.came_back(reports[0])
    assert max(sizes) <= MAX_REPORT_BYTES
    assert sum(count.count for bucket in ledger.buckets.values() for count in bucket.tiers.values()) == 20_000


def verdict_of_the_log(log: OnePartition) -> tuple[Verdict, list[Report]]:
    """What is said of the broker after its log was read, of a producer that sent ten messages; and what is reported after that."""
    ledger, reader, bucket = Ledger("orders"), reader_of(log), NOW - 10 * BUCKET_MS - NOW % BUCKET_MS
    ledger.apply(report(Count(bucket, 10), sent_ms=NOW - 1, is_last=True), offset=0, arrived_ms=NOW - 1)
    [read] = reader.read({"orders": ledger}, now_ms=NOW)
    ledger.apply(read, offset=1, arrived_ms=NOW)
    reader.came_back(read)
    [row] = [row for row in judge(ledger, now_ms=NOW + 1) if row.tier.name == "broker"]
    return row.verdict, reader.read({"orders": ledger}, now_ms=NOW + 1)


def test_messages_behind_a_transaction_that_is_open_are_not_missing() -> None:
    times = [NOW - 10 * BUCKET_MS] * 10
    assert verdict_of_the_log(OnePartition(times, last_stable_offset=4)) == (Verdict.OPEN, [])
    assert verdict_of_the_log(OnePartition(times, last_stable_offset=0)) == (Verdict.OPEN, [])
    assert verdict_of_the_log(OnePartition(times)) == (Verdict.COMPLETE, [])
    assert verdict_of_the_log(OnePartition(times[:4])) == (Verdict.MISSING, [])


def test_a_log_that_grows_all_the_time_is_read_up_to_the_end_it_had() -> None:
    reader, ledger = reader_of(OnePartition([NOW] * 20)), Ledger("orders")
    ends = reader_of(OnePartition([NOW] * 10)).ends(["orders"])
    [read] = reader.read({"orders": ledger}, now_ms=NOW, ends=ends)
    assert read.read == (ReadRange(0, 0, 10),)
    ledger.apply(read, offset=0, arrived_ms=NOW)
    reader.came_back(read)
    assert all(not report.read for report in reader.read({"orders": ledger}, now_ms=NOW, ends=ends))


def test_a_log_that_cannot_be_read_is_given_up_after_a_while_and_waited_for_again_when_it_can() -> None:
    log = OnePartition([NOW] * 10)
    reader, ledger = reader_of(log), Ledger("orders")
    log.leader = -1
    for at in (NOW, NOW + PATIENCE_MS - 1, NOW + PATIENCE_MS):
        assert all(not read.read and (read.progress_ms or 0) < NOW for read in reader.read({"orders": ledger}, now_ms=at))
        assert reader.has_given_up("orders", at) is (at == NOW + PATIENCE_MS)
    assert not reader.is_gone("orders", NOW + PATIENCE_MS)
    log.leader = 1
    [read] = reader.read({"orders": ledger}, now_ms=NOW + PATIENCE_MS)
    assert (read.progress_ms, reader.has_given_up("orders", NOW + PATIENCE_MS)) == (NOW + PATIENCE_MS, False)


def test_a_topic_that_is_gone_is_not_waited_for() -> None:
    log = OnePartition([NOW] * 10)
    reader = reader_of(log)
    log.is_gone = True
    for at in (NOW, NOW + PATIENCE_MS):
        assert reader.read({"orders": Ledger("orders")}, now_ms=at) == []
        assert reader.is_gone("orders", at) is (at > NOW)
    reader.forget("orders")
    assert not reader.has_given_up("orders", NOW + PATIENCE_MS)


def test_a_topic_with_another_id_is_read_from_its_beginning_and_reports_of_the_former_one_are_refused() -> None:
    ledger = Ledger("orders")
    [former] = reader_of(OnePartition([NOW] * 10, topic_id=1)).read({"orders": ledger}, now_ms=NOW)
    ledger.apply(former, offset=0, arrived_ms=NOW)
    [zombie] = reader_of(OnePartition([NOW] * 12, topic_id=1)).read({"orders": ledger}, now_ms=NOW)
    [anew] = reader_of(OnePartition([NOW] * 4, topic_id=2)).read({"orders": ledger}, now_ms=NOW)
    assert (former.read, zombie.read, anew.read) == ((ReadRange(0, 0, 10),), (ReadRange(0, 10, 12),), (ReadRange(0, 0, 4),))
    ledger.apply(anew, offset=1, arrived_ms=NOW)
    ledger.apply(zombie, offset=2, arrived_ms=NOW)
    [bucket] = ledger.buckets.values()
    assert [count.count for count in bucket.tiers.values()] == [14]
    assert [count.unplaced for count in bucket.tiers.values()] == [{0: 10}], "of the former topic only the number is known"


def test_many_partitions_are_asked_for_in_several_requests() -> None:
    log = ManyTopics([f"t{number}" for number in range(250)], partitions=7)
    ends = reader_of(log).ends([f"t{number}" for number in range(250)])
    assert sum(len(topic.partitions) for topic in ends.values()) == 1_750
    assert max(log.asked) <= PARTITIONS_PER_REQUEST


def test_a_round_reads_no_more_than_its_share_and_the_next_one_goes_on_with_the_other_topics() -> None:
    names = [f"t{number}" for number in range(10)]
    log, ledgers = ManyTopics(names, partitions=1), {name: Ledger(name) for name in names}
    reader, rounds = reader_of(log), []
    for _ in range(5):
        reports = reader.read(ledgers, now_ms=NOW, most_bytes=100)
        rounds.append([report.topic for report in reports])
        for read in reports:
            reader.came_back(read)
    assert rounds == [names[start : start + 2] for start in range(0, 10, 2)]


def test_partitions_of_a_topic_that_do_not_fit_into_a_round_come_first_in_the_next() -> None:
    log, ledger = ManyTopics(["t"], partitions=5), Ledger("t")
    reader, covered = reader_of(log), []
    for offset in range(3):
        [report] = reader.read({"t": ledger}, now_ms=NOW, most_bytes=100)
        ledger.apply(report, offset=offset, arrived_ms=NOW)
        reader.came_back(report)
        covered.append(sorted(one.partition for one in report.read))
    assert covered == [[0, 1], [2, 3], [4]]


def test_what_was_deleted_is_read_past_and_counted_as_nothing() -> None:
    log = ManyTopics(["t"], partitions=1)
    log.deleted_up_to = 1
    [report] = reader_of(log).read({"t": Ledger("t")}, now_ms=NOW)
    assert (report.read, report.counts) == ((ReadRange(0, 0, 1),), ())
