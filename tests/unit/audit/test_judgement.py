from collections.abc import Iterator
from uuid import uuid4

import pytest

from millstream.audit import judgement
from millstream.audit.bucket_view import TopicView
from millstream.audit.judgement import TopicJudge
from millstream.audit.ledger import Ledger
from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import Count, Kind, ReadRange, Report
from millstream.audit.verdict import Row, Verdict, judge_bucket
from tests.unit.audit.some_reports import BUCKET_MS, origin, report

BUCKETS = 144
NOW_MS = (BUCKETS + 10) * BUCKET_MS


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Starts of the buckets that are looked at."""
    found: list[int] = []

    def counting(view: TopicView, start: int) -> Iterator[Row]:
        found.append(start)
        return judge_bucket(view, start)

    monkeypatch.setattr(judgement, "judge_bucket", counting)
    return found


def counted(number: int, kind: Kind, *, less: int = 0) -> Report:
    start, end = number * 10, number * 10 + 10 - less
    offsets = None if kind is Kind.PRODUCER else OffsetSet((start, end))
    read = (ReadRange(0, start, number * 10 + 10),) if kind is Kind.BROKER else ()
    count = Count(number * BUCKET_MS, 10 - less, partition=0, offsets=offsets)
    return report(count, reporter=uuid4(), by=origin(kind.value, kind), sent_ms=NOW_MS, progress_ms=NOW_MS, is_last=True, read=read)


def ledger_of_a_day(*, less: int = 0) -> Ledger:
    ledger = Ledger("orders")
    for number in range(BUCKETS):
        apply(ledger, counted(number, Kind.PRODUCER), counted(number, Kind.BROKER), counted(number, Kind.CONSUMER, less=less))
    return ledger


def apply(ledger: Ledger, *reports: Report) -> None:
    for one in reports:
        ledger.apply(one, offset=ledger.head.position, arrived_ms=one.sent_ms)


@pytest.mark.parametrize("less", [0, 1])
def test_of_a_topic_that_is_busy_only_the_buckets_that_changed_are_judged_again(judged: list[int], less: int) -> None:
    ledger, judge = ledger_of_a_day(less=less), TopicJudge()
    assert judge.judge(ledger, now_ms=NOW_MS).news
    assert len(judged) == BUCKETS
    judged.clear()
    apply(ledger, counted(BUCKETS, Kind.PRODUCER), counted(BUCKETS, Kind.BROKER), counted(BUCKETS, Kind.CONSUMER))
    found = judge.judge(ledger, now_ms=NOW_MS + 5_000)
    assert judged == [BUCKETS * BUCKET_MS]
    assert len(found.rows) == BUCKETS + 1
    missing = [row for row in found.news if row.verdict is Verdict.MISSING]
    assert len(missing) == BUCKETS * less, "what is wrong is news as long as it is"
    assert len(found.news) == 3 + len(missing)


def test_a_new_tier_and_one_that_fell_silent_concern_all_buckets(judged: list[int]) -> None:
    ledger, judge = ledger_of_a_day(), TopicJudge()
    judge.judge(ledger, now_ms=NOW_MS)
    for one in (
        report(by=origin("fraud", Kind.CONSUMER), reporter=uuid4(), sent_ms=NOW_MS, is_last=True),
        report(by=origin("producer", Kind.PRODUCER), reporter=uuid4(), sent_ms=NOW_MS, is_last=False),
    ):
        judged.clear()
        apply(ledger, one)
        judge.judge(ledger, now_ms=NOW_MS + 3_600_000)
        assert len(judged) == BUCKETS


def test_buckets_that_left_are_forgotten() -> None:
    ledger, judge = ledger_of_a_day(), TopicJudge()
    judge.judge(ledger, now_ms=NOW_MS)
    for start in list(ledger.buckets)[:-1]:
        ledger.forget(start)
    assert list(judge.judge(ledger, now_ms=NOW_MS).rows) == [(BUCKETS - 1) * BUCKET_MS]
