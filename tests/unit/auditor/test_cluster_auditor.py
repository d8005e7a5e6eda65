import pytest

from millstream.audit.ledger import MAX_OPEN_BUCKETS, Ledger
from millstream.audit.report import Count
from millstream.audit.verdict import Row, judge
from millstream.auditor.cluster_auditor import KEEP_FINISHED_MS, finished_buckets
from tests.unit.audit.reports import BUCKET_MS, report

NOW = 1_000 * BUCKET_MS


def ledger_of(*buckets: int, arrived_ms: int) -> Ledger:
    ledger = Ledger("orders")
    for number, bucket in enumerate(buckets):
        ledger.apply(report(Count(bucket, 5), sequence=number, sent_ms=arrived_ms, is_last=True), offset=number, arrived_ms=arrived_ms)
    return ledger


def rows_of(ledger: Ledger, now_ms: int) -> dict[int, list[Row]]:
    rows: dict[int, list[Row]] = {}
    for row in judge(ledger, now_ms=now_ms):
        rows.setdefault(row.bucket, []).append(row)
    return rows


@pytest.mark.parametrize(("after_ms", "is_finished"), [(0, False), (KEEP_FINISHED_MS - 1, False), (KEEP_FINISHED_MS, True)])
def test_a_bucket_of_an_old_time_is_kept_until_producers_have_said_nothing_of_it_for_an_hour(after_ms: int, is_finished: bool) -> None:
    ledger = ledger_of(0, arrived_ms=NOW)
    now_ms = NOW + after_ms
    assert finished_buckets(ledger, rows_of(ledger, now_ms), now_ms=now_ms) == ([0] if is_finished else [])


def test_a_time_of_arrival_that_lies_ahead_is_not_believed() -> None:
    ledger = ledger_of(0, arrived_ms=NOW)
    ledger.buckets[0].arrived_ms = NOW * 1_000
    rows = {start: [row] for start, [row] in rows_of(ledger_of(0, arrived_ms=NOW), NOW).items()}
    assert finished_buckets(ledger, rows, now_ms=NOW) == [0]


def test_of_too_many_buckets_those_leave_that_nothing_was_said_of_for_longest_whatever_their_times_are() -> None:
    far_ahead = [NOW * 1_000 + number * BUCKET_MS for number in range(MAX_OPEN_BUCKETS)]
    ledger = ledger_of(*far_ahead, NOW, arrived_ms=NOW)
    assert finished_buckets(ledger, {}, now_ms=NOW) == [far_ahead[0]]
