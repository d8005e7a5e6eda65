"""What a stream of Spark has processed, as the offsets that it reports: each once, and none that a former run reported for certain."""

import pytest

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_BUCKET
from millstream.audited.reporter import Reporter
from millstream.audited.settings import AuditSettings
from millstream.spark.source.source_audit import SourceAudit
from millstream.topic_partition import TopicPartition

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> SourceAudit:
    monkeypatch.setattr(Reporter, "announce", lambda _self: None)
    monkeypatch.setattr(Reporter, "publish", lambda _self, _timeout_s: True)
    return SourceAudit(AuditSettings("reader"), "127.0.0.1:1")


def reported(audit: SourceAudit) -> dict[int, OffsetSet | None]:
    counts = [count for report in audit._tier.take(10**12, is_last=False) for count in report.counts]
    assert {count.bucket for count in counts} <= {ANY_BUCKET}
    return {count.partition: count.offsets for count in counts}


def test_a_micro_batch_is_reported_once_however_often_spark_says_that_it_is_processed(audit: SourceAudit) -> None:
    audit.report({ZERO: 5}, {ZERO: 10, ONE: 3})
    audit.report({ZERO: 5}, {ZERO: 10, ONE: 3})
    assert reported(audit) == {0: OffsetSet((5, 10))}
    audit.report({ZERO: 10, ONE: 3}, {ZERO: 10, ONE: 7})
    assert reported(audit) == {1: OffsetSet((3, 7))}


def test_an_end_that_does_not_say_where_it_began_reports_nothing(audit: SourceAudit) -> None:
    audit.report(None, {ZERO: 10})
    assert reported(audit) == {}
