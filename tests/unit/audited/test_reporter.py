"""The thread that publishes: at once, at an interval, at the end, and what it does when it cannot."""

import logging
import threading
from collections.abc import Sequence
from itertools import count
from uuid import uuid4

import pytest

from millstream.audit.reports.report import Kind, Report
from millstream.audited.audit_topic import AuditTopic
from millstream.audited.reporter import Reporter
from millstream.audited.settings import AuditSettings
from millstream.client.errors import BrokerUnavailable
from tests.waiting import wait_until

SETTINGS = AuditSettings("shop", interval_s=0.1)
_ID = uuid4()


class Source:
    """Counts one more with every look."""

    def __init__(self) -> None:
        self.numbers = count()
        self.is_settled = True

    def settle(self) -> bool:
        return self.is_settled

    def restart(self) -> None:
        self.numbers = count()

    def take(self, now_ms: int, *, is_last: bool) -> Sequence[Report]:
        origin = SETTINGS.origin(Kind.PRODUCER, "")
        number = next(self.numbers)
        return [Report(_ID, number, origin, "orders", bucket_ms=1, sent_ms=now_ms, interval_ms=100, is_last=is_last)]


class Topic(AuditTopic):
    """Keeps what is published, and fails while `is_away`."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self.published: list[Report] = []
        self.is_away = False
        self.trouble: Exception = BrokerUnavailable("no broker answers")
        self.attempts = 0

    def cluster_id(self) -> str:
        return "cluster-1"

    def publish(self, reports: Sequence[Report]) -> None:  # type: ignore[override]
        self.attempts += 1
        if self.is_away:
            raise self.trouble
        self.published += reports


def make() -> tuple[Reporter, Source, Topic]:
    source, topic = Source(), Topic()
    return Reporter(SETTINGS, source, open_topic=lambda: topic), source, topic


def test_nothing_is_started_before_there_is_something_to_say() -> None:
    before = threading.active_count()
    reporter, _, topic = make()
    reporter.close()
    assert threading.active_count() == before
    assert not topic.published


def test_reports_come_at_once_then_at_the_interval_and_the_last_one_says_so() -> None:
    reporter, _, topic = make()
    reporter.announce()
    wait_until(lambda: len(topic.published) >= 3, "three reports")
    reporter.close()
    assert [report.sequence for report in topic.published] == list(range(len(topic.published)))
    assert [report.is_last for report in topic.published][-2:] == [False, True]
    assert {report.origin.cluster for report in topic.published} == {"cluster-1"}


@pytest.mark.parametrize("trouble", [BrokerUnavailable("no broker answers"), OSError("Too many open files"), ImportError("no fastavro")])
def test_what_could_not_be_published_is_published_later_and_said_once(caplog: pytest.LogCaptureFixture, trouble: Exception) -> None:
    reporter, _, topic = make()
    topic.is_away, topic.trouble = True, trouble
    with caplog.at_level(logging.WARNING, "millstream.audited"):
        reporter.announce()
        wait_until(lambda: topic.attempts >= 3, "several attempts")
        assert not reporter.publish(5)
        topic.is_away = False
        wait_until(lambda: topic.published, "a report")
        reporter.close()
    assert [report.sequence for report in topic.published] == list(range(len(topic.published)))
    assert len(caplog.messages) == 2
    assert "cannot be published; they are kept" in caplog.messages[0]
    assert "published again; none was lost" in caplog.messages[1]


def test_publishing_now_waits_for_what_was_counted_before() -> None:
    reporter, source, topic = make()
    assert reporter.publish(10)
    published = len(topic.published)
    assert published >= 1
    assert reporter.publish(10)
    assert len(topic.published) > published
    assert next(source.numbers) >= len(topic.published)
    reporter.close()


def test_there_is_no_last_report_while_the_fate_of_messages_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.audited.reporter.CLOSE_TIMEOUT_S", 0.05)
    reporter, source, topic = make()
    source.is_settled = False
    reporter.announce()
    reporter.close(10)
    assert topic.published
    assert not any(report.is_last for report in topic.published)


def test_a_reporter_that_was_closed_can_go_on() -> None:
    reporter, _, topic = make()
    reporter.announce()
    reporter.close()
    before = len(topic.published)
    reporter.announce()
    reporter.close()
    assert len(topic.published) > before
    assert topic.published[-1].is_last


def test_what_is_left_unpublished_at_the_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    reporter, _, topic = make()
    topic.is_away = True
    with caplog.at_level(logging.WARNING, "millstream.audited"):
        reporter.announce()
        reporter.close()
    assert "the last counts of 'shop' could not be published" in caplog.messages[-1]


def test_an_application_goes_on_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    reporter, _, topic = make()
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "millstream.audited"):
        patch.setattr(threading.Thread, "start", refuse)
        reporter.announce()
        reporter.close()
    assert "can't start new thread" in caplog.text
    reporter.announce()
    wait_until(lambda: topic.published, "a report")
    reporter.close()


def test_after_a_fork_another_reporter_begins() -> None:
    reporter, source, topic = make()
    reporter.announce()
    reporter.close()
    # As in a child: a lock that a thread of the parent held is held for ever.
    reporter._changed.acquire()
    reporter.restart()
    assert next(source.numbers) == 0
    before = len(topic.published)
    assert reporter.publish(10)
    assert len(topic.published) > before
    reporter.close()
