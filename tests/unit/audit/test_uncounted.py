import json
from uuid import uuid4

from millstream.audit.ledger import Ledger
from millstream.audit.ledger_fields import decode_head, encode_head
from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import Count, Kind, Origin, ReadRange, Report
from millstream.audit.topic_head import Tier
from millstream.audit.uncounted import MAX_SKIPPED, MAX_WINDOWS, Uncounted
from millstream.audit.verdict import Row, Verdict, judge
from tests.unit.audit.some_reports import BUCKET_MS, origin, report

BROKER = origin("broker", Kind.BROKER)
TARGET = origin("broker", Kind.BROKER, "offline")
HOUR_MS = 3_600_000
NOW_MS = 100 * BUCKET_MS
EARLY, LATE = NOW_MS - 10 * BUCKET_MS, NOW_MS - 5 * BUCKET_MS


def read(*counts: Count, start: int, end: int, at_ms: int, by: Origin = BROKER, is_at_end: bool = True) -> Report:
    progress_ms = at_ms if is_at_end else at_ms - HOUR_MS
    return report(
        *counts,
        reporter=uuid4(),
        by=by,
        sent_ms=at_ms,
        is_last=True,
        progress_ms=progress_ms,
        read=(ReadRange(0, start, end),),
    )


def sent(bucket: int, count: int, *, offsets: OffsetSet | None = None) -> Report:
    at_ms = bucket + BUCKET_MS
    return report(Count(bucket, count, partition=0, offsets=offsets), reporter=uuid4(), sent_ms=at_ms, is_last=True)


def counted(bucket: int, *offsets: tuple[int, int], control: int = 0, aborted: int = 0, malformed: int = 0) -> Count:
    found = OffsetSet.of(*offsets)
    return Count(bucket, len(found), partition=0, offsets=found, control=control, aborted=aborted, malformed=malformed)


def ledger_of(*reports: Report) -> Ledger:
    ledger = Ledger("orders")
    for offset, one in enumerate(reports):
        ledger.apply(one, offset=offset, arrived_ms=one.sent_ms)
    return ledger


def broker_row(ledger: Ledger, bucket: int, cluster: str = "live") -> Row:
    [row] = [
        row for row in judge(ledger, now_ms=NOW_MS + HOUR_MS) if row.bucket == bucket and row.tier == Tier("broker", Kind.BROKER, cluster)
    ]
    return row


def test_a_range_that_was_gone_when_the_reader_came_is_unknown() -> None:
    ledger = ledger_of(
        sent(EARLY, 100),
        read(start=0, end=60, at_ms=NOW_MS, is_at_end=False),
        read(counted(EARLY, (60, 100)), start=60, end=100, at_ms=NOW_MS),
    )
    row = broker_row(ledger, EARLY)
    assert (row.count, row.missing, row.verdict) == (40, 60, Verdict.UNKNOWN)


def test_what_is_lost_beside_it_is_lost() -> None:
    ledger = ledger_of(
        sent(EARLY, 100, offsets=OffsetSet((0, 100))),
        read(start=0, end=60, at_ms=NOW_MS, is_at_end=False),
        read(counted(EARLY, (60, 90)), start=60, end=90, at_ms=NOW_MS),
    )
    row = broker_row(ledger, EARLY)
    assert (row.verdict, row.missing, row.losses[0].ranges) == (Verdict.MISSING, 10, ((90, 100),))


def test_a_bucket_from_before_or_after_the_time_of_the_deletion_is_not_in_doubt() -> None:
    ledger = ledger_of(
        sent(EARLY, 100),
        read(counted(EARLY, (0, 90)), start=0, end=90, at_ms=EARLY + 2 * BUCKET_MS),
        read(start=90, end=95, at_ms=EARLY + 4 * BUCKET_MS),
        sent(LATE, 100),
        read(counted(LATE, (95, 185)), start=95, end=185, at_ms=NOW_MS),
    )
    assert [broker_row(ledger, bucket).verdict for bucket in (EARLY, LATE)] == [Verdict.MISSING, Verdict.MISSING]


def test_markers_and_aborted_records_are_counted_and_what_was_compacted_away_is_not() -> None:
    def verdict(**apart: int) -> Verdict:
        return broker_row(ledger_of(sent(EARLY, 12), read(counted(EARLY, (0, 8), **apart), start=0, end=10, at_ms=NOW_MS)), EARLY).verdict

    assert verdict(control=1, aborted=1) is Verdict.MISSING
    assert verdict(malformed=2) is Verdict.MISSING
    assert verdict(control=1) is Verdict.UNKNOWN


def test_a_hole_in_the_log_that_a_mirror_writes_is_a_loss() -> None:
    copied = report(
        Count(-1, 10, partition=0, offsets=OffsetSet((0, 10))),
        reporter=uuid4(),
        by=origin("copy", Kind.MIRROR)._replace(target="offline"),
        sent_ms=NOW_MS,
        is_last=True,
    )
    ledger = ledger_of(
        sent(EARLY, 10),
        read(counted(EARLY, (0, 10)), start=0, end=10, at_ms=NOW_MS),
        copied,
        read(counted(EARLY, (0, 3), (5, 10)), start=0, end=10, at_ms=NOW_MS, by=TARGET),
    )
    row = broker_row(ledger, EARLY, "offline")
    assert (row.verdict, row.missing) == (Verdict.MISSING, 2)


def test_it_is_kept_with_the_state_and_an_older_state_has_none() -> None:
    ledger = ledger_of(sent(EARLY, 100), read(start=0, end=60, at_ms=NOW_MS, is_at_end=False))
    kept = json.loads(encode_head(ledger.head))
    tier = Tier.of(BROKER)
    assert decode_head(json.dumps(kept).encode()).tiers[tier].uncounted == ledger.head.tiers[tier].uncounted
    for fields in kept["tiers"]:
        del fields["uncounted"]
    assert decode_head(json.dumps(kept).encode()).tiers[tier].uncounted == Uncounted()


def test_it_is_bounded() -> None:
    uncounted = Uncounted()
    for number in range(2 * MAX_SKIPPED):
        at_ms = number * BUCKET_MS
        uncounted.note(read(start=10 * number, end=10 * number + 5, at_ms=at_ms), arrived_ms=at_ms)
        uncounted.note(read(counted(EARLY, (0, 1)), start=0, end=1, at_ms=at_ms + 2 * HOUR_MS * number), arrived_ms=NOW_MS * HOUR_MS)
    assert len(uncounted.skips) <= MAX_WINDOWS
    assert len(uncounted.of(0).bounds) <= 2 * MAX_SKIPPED
    assert all(10 * number in uncounted.of(0) for number in range(2 * MAX_SKIPPED))
