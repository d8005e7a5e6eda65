"""What a wrapper has handed out, and when it commits that."""

import pytest

from millstream.audit.reports.report import Kind
from millstream.audited import wrapper
from millstream.audited.reporter import Reporter
from millstream.audited.tier import Handled, Tier
from millstream.audited.wrapper import InHand


class Publishing:
    """A reporter whose fortune is chosen by hand, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.works = True
        self.is_troubled = False


@pytest.fixture
def publishing(monkeypatch: pytest.MonkeyPatch) -> Publishing:
    made = Publishing()
    monkeypatch.setattr(wrapper, "monotonic", lambda: made.now)
    monkeypatch.setattr(Reporter, "announce", lambda _reporter: None)
    monkeypatch.setattr(Reporter, "publish", lambda _reporter, _timeout_s: made.works)
    monkeypatch.setattr(Reporter, "is_troubled", property(lambda _reporter: made.is_troubled))
    return made


def in_hand(interval_s: float | None = 5) -> InHand:
    return InHand(Tier("reader", Kind.CONSUMER, str), lambda offset: Handled(0, offset, 0, 1), auto_commit_interval_s=interval_s)


def test_what_was_handled_is_committed_at_the_interval_and_once(publishing: Publishing) -> None:
    messages = in_hand()
    messages.give("orders", [0])
    assert not messages.is_commit_due()
    publishing.now += 5
    assert messages.is_commit_due()
    assert messages.publish()
    publishing.now += 5
    assert not messages.is_commit_due()
    messages.give("orders", [1])
    assert messages.is_commit_due()
    assert not messages.is_commit_due()
    assert messages.is_commit_due(at_once=True)


def test_a_commit_waits_for_reports_that_take_long_but_not_for_an_audit_that_does_not_work(publishing: Publishing) -> None:
    messages = in_hand()
    messages.give("orders", [0])
    publishing.now += 5
    publishing.works = False
    assert messages.is_commit_due()
    assert not messages.publish()
    publishing.now += 5
    assert messages.is_commit_due()
    publishing.is_troubled = True
    assert messages.publish()


def test_without_an_interval_the_application_commits(publishing: Publishing) -> None:
    messages = in_hand(None)
    messages.give("orders", [0])
    publishing.now += 1000
    assert not messages.is_commit_due(at_once=True)
