from dataclasses import replace

from millstream.audit.alarm import INCOMPLETE, SILENT, AlarmBook
from millstream.audit.ledger import Ledger
from millstream.audit.verdict import Place, Verdict
from tests.unit.audit.reports import report
from tests.unit.audit.test_archive import BILLING, row

LOST = row(600_000, BILLING, 90, expected=100, missing=10, verdict=Verdict.MISSING, losses=(Place("broker", 0, 10, ((40, 50),)),))


def test_an_alarm_is_raised_once_and_said_to_be_over_once() -> None:
    book = AlarmBook()
    [alarm] = book.note_rows([LOST])
    assert (alarm.kind, alarm.is_over, len(book)) == (INCOMPLETE, False, 1)
    assert "has 90.000% of 100, missing 10: 10 after broker in partition 0 at offsets 40-49" in alarm.message
    assert book.note_rows([LOST]) == []
    [over] = book.note_rows([row(600_000, BILLING, 100)])
    assert (over.is_over, len(book)) == (True, 0)
    assert book.note_rows([row(600_000, BILLING, 100)]) == []


def test_what_is_open_or_above_the_threshold_is_no_alarm() -> None:
    book = AlarmBook(threshold=0.999)
    assert book.note_rows([replace(LOST, verdict=Verdict.OPEN)]) == []
    assert book.note_rows([row(0, BILLING, 99_990, expected=100_000, missing=10, verdict=Verdict.MISSING)]) == []
    assert book.note_rows([row(0, BILLING, 110, expected=100, surplus=10, verdict=Verdict.SURPLUS)]) == []
    assert len(book.note_rows([replace(LOST, verdict=Verdict.LATE)])) == 1


def test_a_tier_that_falls_silent_is_an_alarm_until_it_reports_again() -> None:
    ledger = Ledger("orders")
    ledger.apply(report(sent_ms=1_000), offset=0, arrived_ms=1_000)
    book = AlarmBook()
    assert book.note_silence(ledger, 20_000) == []
    [alarm] = book.note_silence(ledger, 61_000)
    assert (alarm.kind, alarm.message) == (SILENT, "the tier 'web' of orders has not reported for 60 s (on h1)")
    ledger.apply(report(sequence=1, sent_ms=62_000, is_last=True), offset=1, arrived_ms=62_000)
    [over] = book.note_silence(ledger, 63_000)
    assert over.is_over
