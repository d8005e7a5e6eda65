import re

import pytest

from millstream.audit.archive import SEVERITY, Archive
from millstream.audit.ledger import Bucket, Ledger
from millstream.audit.reports.report import Count, Kind
from millstream.audit.summary import Selection, TopicAudit
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import Verdict
from tests.unit.audit.some_reports import origin, report
from tests.unit.audit.test_archive import LOG, ROWS, row

NOW = 10_000_000


@pytest.fixture
def archive() -> Archive:
    archive = Archive("orders")
    for number, rows in enumerate(ROWS):
        archive.add(Bucket(rows[0].bucket, part=number), rows)
    return Archive.decode("orders", archive.encode())


def test_sums_over_columns_are_sums_over_rows(archive: Archive) -> None:
    audit = TopicAudit(Ledger("orders"), [archive], now_ms=NOW)
    everything, counted = audit.summary(Selection()), audit.summary(Selection(since_ms=0))
    assert everything.tiers == counted.tiers
    assert everything.problems == counted.problems == [ROWS[1][1]]
    cells = [dict(pair for starts, codes in one.cells() for pair in zip(starts, codes, strict=True)) for one in (everything, counted)]
    assert cells[0] == cells[1] == {0: 0, 600_000: SEVERITY.index(Verdict.MISSING), 1_200_000: 0}


def test_rows_are_chosen_by_time_and_tier(archive: Archive) -> None:
    audit = TopicAudit(Ledger("orders"), [archive], now_ms=NOW)
    assert list(audit.rows(Selection(since_ms=600_000, until_ms=1_200_000))) == ROWS[1]
    assert [row.tier for row in audit.rows(Selection(tier="broker"))] == [LOG] * 3
    assert Selection(topic=re.compile("ord.*")).has_topic("orders")
    assert not Selection(topic=re.compile("ord")).has_topic("orders")


def test_what_came_after_a_bucket_was_archived_is_put_together_with_it(archive: Archive) -> None:
    ledger = Ledger("orders")
    late = report(Count(600_000, 10), by=origin("billing", Kind.CONSUMER), sent_ms=NOW, is_last=True)
    ledger.apply(late, offset=0, arrived_ms=NOW)
    rows = {row.tier.name: row for row in TopicAudit(ledger, [archive], now_ms=NOW).rows(Selection(since_ms=600_000, until_ms=700_000))}
    assert (rows["billing"].count, rows["billing"].missing) == (100, 0)
    assert rows["broker"].count == 100


def test_a_bucket_in_the_archives_of_two_clusters_is_judged_across_both(archive: Archive) -> None:
    summary = TopicAudit(Ledger("orders"), [archive, archive], now_ms=NOW).summary(Selection())
    assert sum(len(codes) for _, codes in summary.cells()) == 3


def test_a_bucket_that_was_archived_while_it_was_open_is_judged_when_it_is_over() -> None:
    archive, web = Archive("orders"), Tier("web", Kind.PRODUCER, "live")
    archive.add(Bucket(0), [row(0, web, 100, verdict=Verdict.OPEN), row(0, LOG, 90, expected=100, missing=10, verdict=Verdict.OPEN)])
    ledger = Ledger("orders")
    ledger.apply(report(by=origin("broker", Kind.BROKER), sent_ms=NOW, is_last=True, progress_ms=NOW), offset=0, arrived_ms=NOW)
    summary = TopicAudit(ledger, [Archive.decode("orders", archive.encode())], now_ms=NOW).summary(Selection())
    assert [(problem.tier, problem.missing, problem.verdict) for problem in summary.problems] == [(LOG, 10, Verdict.MISSING)]
    assert summary.tiers[web].verdicts == {Verdict.COMPLETE: 1}
