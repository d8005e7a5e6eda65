import pytest

from millstream.audit.finished import KEEP_OTHERS_MS, KEEP_SETTLED_MS, is_finished, is_forgotten
from millstream.audit.ledger import Bucket, Ledger
from millstream.audit.report import NO_TIME, Count
from millstream.audit.verdict import Verdict
from tests.unit.audit.reports import BUCKET_MS, report
from tests.unit.audit.test_archive import BILLING, row

BUCKET = 1_800_000_000_000
END = BUCKET + BUCKET_MS
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


def test_a_topic_is_forgotten_when_nobody_spoke_of_it_for_a_day_and_no_bucket_is_left() -> None:
    ledger = Ledger("orders")
    ledger.apply(report(Count(BUCKET, 5)), offset=0, arrived_ms=BUCKET)
    assert not is_forgotten(ledger, BUCKET + KEEP_OTHERS_MS)
    ledger.forget(BUCKET)
    assert not is_forgotten(ledger, BUCKET + KEEP_OTHERS_MS - 1)
    assert is_forgotten(ledger, BUCKET + KEEP_OTHERS_MS)
