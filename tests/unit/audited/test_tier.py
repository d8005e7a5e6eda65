"""What one process counts under the name of a tier."""

import pytest

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_BUCKET, NO_TIME, Count, Kind
from millstream.audited.reporter import Reporter
from millstream.audited.tier import Handled, Tier
from millstream.topic_partition import TopicPartition

BUCKET_MS = 600_000


@pytest.fixture(autouse=True)
def _no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reporter, "announce", lambda _self: None)


def counts_of(tier: Tier) -> list[Count]:
    return [count for report in tier.take(10**12, is_last=False) for count in report.counts]


def test_what_was_handled_is_counted_by_partition_bucket_and_offsets() -> None:
    tier = Tier("search", Kind.CONSUMER, str)
    messages = [(0, 5, 10, 3), (0, 6, 20, 4), (1, 9, 10, 1), (0, 8, 30, 2), (0, 9, BUCKET_MS, 2), (0, 10, -1, 1), (0, 5, 10, 3)]
    tier.handled("orders", [Handled(*message) for message in messages])
    found = {(count.partition, count.bucket, count.offsets): (count.count, count.bytes) for count in counts_of(tier)}
    assert found == {
        (0, 0, OffsetSet((5, 7, 8, 9))): (3, 9),
        (0, 0, OffsetSet((5, 6))): (1, 3),
        (1, 0, OffsetSet((9, 10))): (1, 1),
        (0, BUCKET_MS, OffsetSet((9, 10))): (1, 2),
        (0, NO_TIME, OffsetSet((10, 11))): (1, 1),
    }
    assert counts_of(tier) == []


def test_whole_ranges_of_offsets_have_no_bucket() -> None:
    tier = Tier("lake", Kind.CONSUMER, str)
    tier.passed(TopicPartition("orders", 2), 10, 20)
    [count] = counts_of(tier)
    assert (count.bucket, count.partition, count.count, count.offsets) == (ANY_BUCKET, 2, 10, OffsetSet((10, 20)))


def test_a_producer_has_got_to_the_oldest_message_that_is_under_way() -> None:
    tier = Tier("shop", Kind.PRODUCER, str)
    first, second = tier.sending("orders"), tier.sending("orders")
    [hello] = tier.take(5_000_000_000_000, is_last=False)
    assert hello.progress_ms == first == second
    third = tier.sending("orders")
    tier.sent(first, "orders", 10, 5, partition=2)
    tier.failed(second)
    [report] = tier.take(5_000_000_010_000, is_last=False)
    assert (report.progress_ms, [(count.partition, count.count) for count in report.counts]) == (5_000_000_000_000, [(2, 1)])
    assert not tier.settle()
    tier.sent(third, "orders", 10, 5, partition=0)
    assert tier.settle()
    assert [report.progress_ms for report in tier.take(5_000_000_020_000, is_last=False)] == [5_000_000_020_000]
