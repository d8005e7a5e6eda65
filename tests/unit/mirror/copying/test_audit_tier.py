"""The mirror's tier of the audit: what the target has is reported once, also by a process that goes on after another."""

import pytest

from millstream.audit.reports.report import ANY_BUCKET
from millstream.audited.reporter import Reporter
from millstream.mirror.copying.audit_tier import AuditTier
from millstream.mirror.copying.copied_batches import CopiedBatches
from millstream.topic_partition import TopicPartition

PLACE = TopicPartition("orders", 3)


@pytest.fixture
def tier(monkeypatch: pytest.MonkeyPatch) -> AuditTier:
    """One whose reports are taken by the test."""
    monkeypatch.setattr(Reporter, "announce", lambda _: None)
    return AuditTier("copy", "127.0.0.1:1", target_cluster=lambda: "offline", progress_ms=lambda now_ms: now_ms)


def batches(start: int, end: int) -> CopiedBatches:
    return CopiedBatches(memoryview(b""), ((start, end),), (), leader_epoch=0, max_timestamp=0)


def taken(tier: AuditTier) -> list[tuple[int, int]]:
    """The offsets of the next reports."""
    counts = [count for report in tier.take(1_000, is_last=False) for count in report.counts]
    assert {(count.bucket, count.partition) for count in counts} <= {(ANY_BUCKET, PLACE.partition)}
    return [interval for count in counts if count.offsets is not None for interval in count.offsets.intervals()]


def test_what_a_process_that_was_killed_had_copied_and_not_reported_is_reported(tier: AuditTier) -> None:
    tier.found(PLACE, audited=40, start=0, end=100)
    tier.copied(PLACE, batches(100, 110))
    assert taken(tier) == [(40, 110)]


def test_a_mirror_that_never_reported_reports_all_that_the_target_has(tier: AuditTier) -> None:
    tier.found(PLACE, audited=-1, start=7, end=100)
    assert taken(tier) == [(7, 100)]


def test_a_copy_that_begins_again_reports_an_append_whose_answer_was_lost(tier: AuditTier) -> None:
    tier.copied(PLACE, batches(0, 50))
    tier.found(PLACE, audited=-1, start=0, end=50)
    assert taken(tier) == [(0, 50)]
    tier.found(PLACE, audited=20, start=0, end=60)
    assert taken(tier) == [(50, 60)]


def test_reports_are_published_when_the_next_ones_are_asked_for(tier: AuditTier) -> None:
    tier.copied(PLACE, batches(0, 50))
    assert tier.audited_to(PLACE) == -1
    taken(tier)
    tier.copied(PLACE, batches(50, 60))
    assert tier.audited_to(PLACE) == -1
    taken(tier)
    assert tier.audited_to(PLACE) == 50
