from uuid import UUID

import pytest

from millstream.audit.reports.report import Count, Kind
from millstream.audit.reports.reporter import MAX_GAPS, Reporter
from tests.unit.audit.some_reports import REPORTER, report

HOUR = 3_600_000
DAY = 24 * HOUR


def reporter() -> Reporter:
    return Reporter(UUID(int=1), Kind.PRODUCER, "web", "live", "h1", "shop")


def accept(ours: Reporter, sequence: int, at: int, *counts: Count, is_last: bool = False, progress: int | None = None) -> bool:
    made = report(*counts, reporter=REPORTER, sequence=sequence, sent_ms=at, is_last=is_last, progress_ms=progress)
    return ours.accept(made, arrived_ms=at)


def test_one_that_owes_reports_is_silent_and_one_that_has_said_its_last_word_is_not() -> None:
    ours = reporter()
    accept(ours, 0, DAY)
    assert (ours.is_live(DAY + 30_000), ours.is_silent(DAY + 30_001)) == (True, True)
    accept(ours, 1, DAY + 1, is_last=True)
    assert (ours.is_live(DAY + 2), ours.is_silent(2 * DAY)) == (False, False)


def test_a_report_that_was_lost_leaves_a_doubt_until_it_comes() -> None:
    ours = reporter()
    accept(ours, 0, DAY)
    accept(ours, 2, DAY + 20_000, Count(DAY, 5), is_last=True)
    (doubt,) = ours.doubts(2 * DAY)
    assert doubt.low_ms <= DAY
    assert doubt.high_ms >= DAY + 20_000
    assert ours.lost_reports() == 1
    assert accept(ours, 1, DAY + 10_000)
    assert (ours.doubts(2 * DAY), ours.lost_reports()) == ([], 0)


def test_a_doubt_reaches_back_as_far_as_the_messages_of_the_reporter_ever_did() -> None:
    ours = reporter()
    accept(ours, 0, DAY, Count(DAY - 2 * HOUR, 5))
    accept(ours, 2, DAY + 10_000, is_last=True)
    (doubt,) = ours.doubts(2 * DAY)
    assert doubt.low_ms == DAY - 2 * HOUR


def test_first_reports_that_were_lost_are_noticed() -> None:
    ours = reporter()
    accept(ours, 3, DAY, is_last=True)
    assert (ours.lost_reports(), len(ours.doubts(2 * DAY))) == (3, 1)


@pytest.mark.parametrize("off", [-10 * 365 * DAY, 10 * 365 * DAY])
def test_a_clock_that_is_years_off_is_not_believed_and_said(off: int) -> None:
    ours = reporter()
    made = report(reporter=REPORTER, sent_ms=20 * 365 * DAY + off)
    ours.accept(made, arrived_ms=20 * 365 * DAY)
    assert (ours.progress_ms, ours.has_wrong_clock) == (20 * 365 * DAY, True)


def test_very_many_gaps_are_bounded() -> None:
    ours = reporter()
    for number in range(5 * MAX_GAPS):
        accept(ours, 2 * number, DAY + number)
    assert len(ours.gaps) <= MAX_GAPS
    assert len(ours.seen.bounds) <= 2 * MAX_GAPS + 2
    assert not accept(ours, 0, DAY)
