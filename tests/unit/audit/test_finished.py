import pytest

from millstream.audit.finished import KEEP_OTHERS_MS, KEEP_SETTLED_MS, finished_buckets, is_finished, is_forgotten
from millstream.audit.ledger import MAX_OPEN_BUCKETS, Bucket, Ledger
from millstream.audit.reports.report import NO_TIME, Count
from millstream.audit.verdict import Row, Verdict, judge
from tests.unit.audit.some_reports import BUCKET_MS, report
from tests.unit.audit.test_archive import BILLING, row

BUCKET = 1_800_000_000_000
END = BUCKET + BUCKET_MS
LONG_AFTER = 1_000 * BUCKET_MS
YEARS_MS = 10 * 365 * 24 * 3_600_000


@pytest.mark.parametrize(
    ("verdicts", "keep_ms"),
    [
        ([Verdict.COMPLETE, Verdict.SURPLUS, Verdict.UNKNOWN], KEEP_SETTLED_MS),
        ([Verdict.COMPLETE, Verdict.MISSING], KEEP_OTHERS_MS),
        ([Verdict.LATE], KEEP_OTHERS_MS),
        ([Verdict.OPEN], KEEP_OTHERS_MS),
        ([], KEEP_OTHERS_MS),
    ],
)
def test_what_is_settled_is_kept_for_an_hour_and_all_else_for_a_day(verdicts: list[Verdict], keep_ms: int) -> None:
    rows = [row(BUCKET, BILLING, 1, verdict=verdict) for verdict in verdicts]
    bucket = Bucket(BUCKET, touched_ms=BUCKET + 5)
    assert not is_finished(bucket, rows, bucket_ms=BUCKET_MS, now_ms=END + keep_ms - 1)
    assert is_finished(bucket, rows, bucket_ms=BUCKET_MS, now_ms=END + keep_ms)


@pytest.mark.parametrize("start", [NO_TIME, 0, BUCKET - YEARS_MS, BUCKET + YEARS_MS])
def test_messages_of_other_times_keep_their_bucket_as_long_as_they_come(start: int) -> None:
    rows = [row(start, BILLING, 1)]
    bucket = Bucket(start, touched_ms=BUCKET)
    assert not is_finished(bucket, rows, bucket_ms=BUCKET_MS, now_ms=BUCKET + KEEP_SETTLED_MS - 1)
    assert is_finished(bucket, rows, bucket_ms=BUCKET_MS, now_ms=BUCKET + KEEP_SETTLED_MS)


def test_a_topic_is_forgotten_when_no_report_came_for_a_day_and_no_bucket_is_left() -> None:
    ledger = Ledger("orders")
    ledger.apply(report(Count(BUCKET, 5)), offset=0, arrived_ms=BUCKET)
    assert not is_forgotten(ledger, BUCKET + KEEP_OTHERS_MS)
    ledger.forget(BUCKET)
    assert not is_forgotten(ledger, BUCKET + KEEP_OTHERS_MS - 1)
    assert is_forgotten(ledger, BUCKET + KEEP_OTHERS_MS)


def ledger_of(*buckets: int, arrived_ms: int) -> Ledger:
    ledger = Ledger("orders")
    for number, bucket in enumerate(buckets):
        ledger.apply(report(Count(bucket, 5), sequence=number, sent_ms=arrived_ms, is_last=True), offset=number, arrived_ms=arrived_ms)
    return ledger


def rows_of(ledger: Ledger, now_ms: int) -> dict[int, list[Row]]:
    rows: dict[int, list[Row]] = {}
    for judged in judge(ledger, now_ms=now_ms):
        rows.setdefault(judged.bucket, []).append(judged)
    return rows


@pytest.mark.parametrize(("after_ms", "has_ended"), [(0, False), (KEEP_SETTLED_MS - 1, False), (KEEP_SETTLED_MS, True)])
def test_a_bucket_of_an_old_time_is_kept_until_producers_have_said_nothing_of_it_for_an_hour(after_ms: int, has_ended: bool) -> None:
    ledger = ledger_of(0, arrived_ms=LONG_AFTER)
    now_ms = LONG_AFTER + after_ms
    assert finished_buckets(ledger, rows_of(ledger, now_ms), now_ms=now_ms) == ([0] if has_ended else [])


def test_a_time_of_arrival_that_lies_ahead_is_not_believed() -> None:
    ledger = ledger_of(0, arrived_ms=LONG_AFTER)
    ledger.buckets[0].touched_ms = LONG_AFTER * 1_000
    rows = {start: [row] for start, [row] in rows_of(ledger_of(0, arrived_ms=LONG_AFTER), LONG_AFTER).items()}
    assert finished_buckets(ledger, rows, now_ms=LONG_AFTER) == [0]


def test_of_too_many_buckets_those_leave_that_nothing_was_said_of_for_longest_whatever_their_times_are() -> None:
    far_ahead = [LONG_AFTER * 1_000 + number * BUCKET_MS for number in range(MAX_OPEN_BUCKETS)]
    ledger = ledger_of(*far_ahead, LONG_AFTER, arrived_ms=LONG_AFTER)
    assert finished_buckets(ledger, {}, now_ms=LONG_AFTER) == [far_ahead[0]]
