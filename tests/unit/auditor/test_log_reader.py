from collections.abc import Mapping, Sequence
from random import Random
from typing import cast
from uuid import UUID

from millstream.audit.counter import MAX_REPORT_BYTES
from millstream.audit.ledger import Ledger
from millstream.audit.report import Count, ReadRange, Report
from millstream.audit.report_json import encode_report
from millstream.audit.verdict import Verdict, judge
from millstream.auditor.log_reader import PATIENCE_MS, LogReader, broker_origin
from millstream.client.cluster import Cluster
from millstream.client.fetch import FetchedPartition, FetchFrom
from millstream.client.list_offsets import OffsetAndTime
from millstream.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from millstream.topic_partition import TopicPartition
from millstream.wire.records import Record, encode_batch
from tests.unit.audit.reports import report

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


def reader_of(log: OnePartition) -> LogReader:
    return LogReader(cast(Cluster, log), broker_origin(cluster_id="live", host="h1", datacentre=""), bucket_ms=BUCKET_MS)


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
