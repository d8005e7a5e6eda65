from dataclasses import replace

from millstream.audit.alarm import CHANGE_PAUSE_MS, INCOMPLETE, LATE_PATIENCE_MS, SILENT, Alarm, AlarmBook, AlarmState
from millstream.audit.ledger import Ledger
from millstream.audit.verdict import Place, Verdict
from tests.unit.audit.some_reports import report
from tests.unit.audit.test_archive import BILLING, row

NOW = 1_000_000
LOST = row(600_000, BILLING, 90, expected=100, missing=10, verdict=Verdict.MISSING, losses=(Place("broker", 0, 10, ((40, 50),)),))
BY_NUMBERS = replace(LOST, losses=(Place("web", None, 10, ()),))
MORE = replace(LOST, missing=11, losses=(Place("broker", 0, 11, ((40, 51),)),))
LATE = replace(LOST, verdict=Verdict.LATE)
WELL = row(600_000, BILLING, 100)


def states(alarms: list[Alarm]) -> list[AlarmState]:
    return [alarm.state for alarm in alarms]


def test_an_alarm_is_raised_once_and_resolved_once() -> None:
    book = AlarmBook()
    [alarm] = book.note_rows([LOST], NOW)
    assert (alarm.kind, alarm.state, len(book)) == (INCOMPLETE, AlarmState.RAISED, 1)
    assert "of the bucket at 1970-01-01T00:10:00Z: the tier 'billing' has 90.000% of 100, missing 10: 10 after broker" in alarm.message
    assert "in partition 0 at offsets 40-49" in alarm.message
    assert book.note_rows([LOST], NOW + 1) == []
    [over] = book.note_rows([WELL], NOW + 2)
    assert (over.state, len(book)) == (AlarmState.RESOLVED, 0)
    assert book.note_rows([WELL], NOW + 3) == []


def test_what_is_open_or_above_the_threshold_is_no_alarm() -> None:
    book = AlarmBook(threshold=0.999)
    assert book.note_rows([replace(LOST, verdict=Verdict.OPEN)], NOW) == []
    assert book.note_rows([row(0, BILLING, 99_990, expected=100_000, missing=10, verdict=Verdict.MISSING)], NOW) == []
    assert book.note_rows([row(0, BILLING, 110, expected=100, surplus=10, verdict=Verdict.SURPLUS)], NOW) == []


def test_what_becomes_more_exact_is_said_again_at_once() -> None:
    book = AlarmBook()
    book.note_rows([BY_NUMBERS], NOW)
    [alarm] = book.note_rows([LOST], NOW + 1)
    assert (alarm.state, alarm.losses, len(book)) == (AlarmState.CHANGED, LOST.losses, 1)
    assert book.note_rows([LOST], NOW + 2) == []


def test_other_numbers_are_said_again_once_a_minute() -> None:
    book = AlarmBook()
    book.note_rows([LOST], NOW)
    assert book.note_rows([MORE], NOW + CHANGE_PAUSE_MS - 1) == []
    assert states(book.note_rows([MORE], NOW + CHANGE_PAUSE_MS)) == [AlarmState.CHANGED]
    assert book.note_rows([MORE], NOW + 5 * CHANGE_PAUSE_MS) == []


def test_a_bucket_that_is_open_again_neither_resolves_its_alarm_nor_lets_it_be_forgotten() -> None:
    book = AlarmBook()
    book.note_rows([LOST], NOW)
    book.forget_unseen()
    assert book.note_rows([replace(LOST, verdict=Verdict.OPEN)], NOW + 1) == []
    book.forget_unseen()
    assert len(book) == 1


def test_a_tier_that_is_only_behind_gets_a_minute_to_catch_up() -> None:
    book = AlarmBook()
    assert book.note_rows([LATE], NOW) == []
    assert book.note_rows([LATE], NOW + LATE_PATIENCE_MS - 1) == []
    assert book.note_rows([WELL], NOW + LATE_PATIENCE_MS) == []
    assert book.note_rows([LATE], NOW + LATE_PATIENCE_MS) == [], "it begins anew"
    assert states(book.note_rows([LATE], NOW + 2 * LATE_PATIENCE_MS)) == [AlarmState.RAISED]
    assert book.note_rows([replace(LATE, missing=5, losses=())], NOW + 9 * LATE_PATIENCE_MS) == [], "that it catches up is no news"
    assert states(book.note_rows([MORE], NOW + 10 * LATE_PATIENCE_MS)) == [AlarmState.CHANGED]


def test_what_nothing_is_known_of_any_more_is_forgotten() -> None:
    book = AlarmBook()
    book.note_rows([LOST, replace(LATE, bucket=0)], NOW)
    book.forget_unseen()
    assert book.counts() == {(INCOMPLETE, LOST.topic, "billing"): 1}
    book.forget_unseen()
    assert (len(book), book.counts()) == (0, {})
    assert book.note_rows([replace(LATE, bucket=0)], NOW + LATE_PATIENCE_MS) == [], "nor since when it was late"


def test_a_tier_that_falls_silent_is_an_alarm_until_it_reports_again() -> None:
    ledger = Ledger("orders")
    ledger.apply(report(sent_ms=1_000), offset=0, arrived_ms=1_000)
    book = AlarmBook()
    assert book.note_silence(ledger, 20_000) == []
    [alarm] = book.note_silence(ledger, 61_000)
    assert (alarm.kind, alarm.message) == (SILENT, "the tier 'web' of orders has not reported for 60 s (on h1)")
    assert book.note_silence(ledger, 200_000) == []
    ledger.apply(report(sequence=1, sent_ms=62_000, is_last=True), offset=1, arrived_ms=62_000)
    [over] = book.note_silence(ledger, 63_000)
    assert over.state is AlarmState.RESOLVED
