from dataclasses import replace

from millstream.audit.ledger import Ledger
from millstream.audit.remarks import remarks_on
from millstream.audit.reports.report import Count, Report
from tests.unit.audit.some_reports import report

NOW = 1_800_000_000_000


def texts(*reports: Report) -> list[str]:
    ledger = Ledger("orders")
    for offset, one in enumerate(reports):
        ledger.apply(one, offset=offset, arrived_ms=NOW)
    return [remark.text for remark in remarks_on(ledger)]


def test_nothing_is_odd_about_reports_as_they_should_be() -> None:
    first = report(Count(0, 5), sent_ms=NOW)
    assert texts(first, first, replace(first, sequence=1)) == []


def test_a_clock_that_is_years_off_is_said() -> None:
    [text] = texts(report(sent_ms=5))
    assert text.startswith("orders: 'web' on h1 (shop, 00000000-")
    assert "has a clock that is more than a day off" in text


def test_two_processes_with_one_id_are_said() -> None:
    [text] = texts(report(Count(0, 5), sent_ms=NOW), report(Count(0, 7), sent_ms=NOW))
    assert "is two processes: 1 reports have the numbers of others" in text


def test_reports_that_never_came_are_said() -> None:
    [text] = texts(report(sent_ms=NOW), report(sequence=3, sent_ms=NOW))
    assert "sent reports that never came: 2 or fewer" in text


def test_buckets_that_cannot_be_compared_are_said() -> None:
    [text] = texts(replace(report(sent_ms=NOW), bucket_ms=7_000))
    assert text.startswith("orders: 1 reports have buckets of a length that cannot be compared with 600 s, or are of more than 500 tiers")
