"""Reports of batches: named by the batch, and kept when they cannot be published."""

import logging
import threading
from collections.abc import Iterable, Sequence
from time import time

import pytest

from millstream.audit.reports.report import Count, Kind, Report
from millstream.audited.audit_topic import AuditTopic
from millstream.audited.batch_reports import BatchProgress, publish_batch, reporter_of
from millstream.audited.settings import AuditSettings
from millstream.client.errors import BrokerUnavailable

SETTINGS = AuditSettings("lake")


def test_a_batch_that_cannot_be_reported_is_reported_with_the_next(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    published: list[Report] = []
    is_away = [True]

    def publish(_topic: AuditTopic, reports: Iterable[Report]) -> None:
        if is_away[0]:
            raise BrokerUnavailable("no broker answers")
        published.extend(reports)

    monkeypatch.setattr(AuditTopic, "cluster_id", lambda _topic: "cluster-1")
    monkeypatch.setattr(AuditTopic, "publish", publish)
    reporter = reporter_of("lake", "table")
    with caplog.at_level(logging.WARNING):
        for sequence in range(3):
            is_away[0] = sequence < 2
            counts = {"orders": [Count(0, sequence + 1)]}
            done = publish_batch(SETTINGS, "127.0.0.1:1", Kind.LOAD, reporter=reporter, sequence=sequence, counts=counts)
            assert done == (sequence == 2)
    assert [(report.sequence, report.counts[0].count, report.is_last) for report in published] == [(0, 1, True), (1, 2, True), (2, 3, True)]
    assert {report.origin.cluster for report in published} == {"cluster-1"}
    assert len(caplog.messages) == 2


def test_a_batch_with_a_backlog_says_how_far_it_is_and_that_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Report] = []
    monkeypatch.setattr(AuditTopic, "cluster_id", lambda _topic: "cluster-1")
    monkeypatch.setattr(AuditTopic, "publish", lambda _topic, reports: published.extend(reports))
    hour_ago_ms = int(time() * 1000) - 3_600_000
    publish_batch(
        SETTINGS,
        "127.0.0.1:3",
        Kind.LOAD,
        reporter=reporter_of("lake", "table"),
        sequence=0,
        counts={"orders": [], "clicks": [], "views": [], "old": []},
        progress={
            "orders": BatchProgress(hour_ago_ms, next_report_ms=90_000),
            "clicks": BatchProgress(hour_ago_ms),
            "old": BatchProgress(0, next_report_ms=90_000),
        },
    )
    orders, clicks, views, old = published
    assert (orders.progress_ms, orders.is_last, orders.interval_ms) == (hour_ago_ms, False, 90_000)
    assert (clicks.progress_ms, clicks.is_last, clicks.interval_ms) == (hour_ago_ms, True, 10_000)
    assert (views.progress_ms, views.is_last) == (views.sent_ms, True)
    # What is further back than a day would be taken for a wrong clock.
    assert old.progress_ms == old.sent_ms - 23 * 3_600_000


def test_batches_that_fail_at_the_same_time_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Report] = []
    reporter = reporter_of("lake", "table")

    def report(sequence: int) -> None:
        publish_batch(SETTINGS, "127.0.0.1:2", Kind.LOAD, reporter=reporter, sequence=sequence, counts={"orders": [Count(0, 1)]})

    def publish(_topic: AuditTopic, reports: Sequence[Report]) -> None:
        if reports[-1].sequence == 0:
            # While this one is under way, that of another query fails.
            other = threading.Thread(target=report, args=(1,))
            other.start()
            other.join()
        if reports[-1].sequence < 2:
            raise BrokerUnavailable("no broker answers")
        published.extend(reports)

    monkeypatch.setattr(AuditTopic, "cluster_id", lambda _topic: "cluster-1")
    monkeypatch.setattr(AuditTopic, "publish", publish)
    report(0)
    report(2)
    assert sorted(report.sequence for report in published) == [0, 1, 2]


def test_a_reporter_has_the_same_id_in_every_process() -> None:
    assert reporter_of("lake", 7) == reporter_of("lake", 7) != reporter_of("lake", 8)
    assert str(reporter_of("lake", "table")) == "f4d99ebb-0820-5839-93fa-cc60066e6824"
