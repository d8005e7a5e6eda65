from itertools import count as count_up
from uuid import UUID

import pytest

from millstream.audit.bucket_view import NO_LOGS, Logs
from millstream.audit.ledger import Ledger
from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_BUCKET, NO_TIME, Count, Kind, Origin, ReadRange, Report
from millstream.audit.verdict import Place, Row, Verdict, judge
from tests.unit.audit.some_reports import BUCKET_MS, origin, report

BUCKET = 1_800_000_000_000
END = BUCKET + BUCKET_MS
CLOSED = END + 3_600_000
WEB = origin("web", Kind.PRODUCER)
LIVE = origin("broker", Kind.BROKER)
OFFLINE = origin("broker", Kind.BROKER, "offline")
COPY = origin("copy", Kind.MIRROR)._replace(target="offline")
BILLING = origin("billing", Kind.CONSUMER)


class Story:
    """Reports of a topic, as they come."""

    def __init__(self) -> None:
        self.ledger = Ledger("orders")
        self._offsets = count_up()
        self._uuids = count_up(1)

    def report(self, by: Origin, *counts: Count, at: int = CLOSED, read: tuple[ReadRange, ...] = (), is_last: bool = True) -> None:
        made = report(*counts, reporter=UUID(int=next(self._uuids)), by=by, sent_ms=at, progress_ms=at, is_last=is_last, read=read)
        self.apply(made, at=at)

    def apply(self, made: Report, *, at: int = CLOSED) -> None:
        self.ledger.apply(made, offset=next(self._offsets), arrived_ms=at)

    def row(self, tier: str, cluster: str = "live", *, now: int = CLOSED + 1_000, bucket: int = BUCKET, logs: Logs = NO_LOGS) -> Row:
        rows = [row for row in judge(self.ledger, now_ms=now, logs=logs) if row.bucket == bucket]
        return next(row for row in rows if (row.tier.name, row.tier.cluster) == (tier, cluster))


def numbers(count: int, partition: int = 0) -> Count:
    return Count(BUCKET, count, count * 10, partition)


def offsets(*intervals: tuple[int, int], partition: int = 0, bucket: int = BUCKET) -> Count:
    found = OffsetSet.of(*intervals)
    return Count(bucket, len(found), len(found) * 10, partition, offsets=found)


@pytest.fixture
def story() -> Story:
    story = Story()
    story.report(WEB, numbers(100))
    story.report(LIVE, offsets((0, 100)), read=(ReadRange(0, 0, 100),))
    return story


def test_what_arrived_at_every_tier_is_complete(story: Story) -> None:
    story.report(BILLING, offsets((0, 100)))
    rows = list(judge(story.ledger, now_ms=CLOSED + 1_000))
    assert [(row.tier.name, row.count, row.missing, row.surplus, row.verdict) for row in rows] == [
        ("web", 100, 0, 0, Verdict.COMPLETE),
        ("broker", 100, 0, 0, Verdict.COMPLETE),
        ("billing", 100, 0, 0, Verdict.COMPLETE),
    ]
    assert [row.completeness for row in rows] == [1.0, 1.0, 1.0]


def test_ten_that_are_missing_are_named_with_tier_partition_and_offsets(story: Story) -> None:
    story.report(BILLING, offsets((0, 40), (50, 100)))
    row = story.row("billing")
    assert (row.missing, row.verdict, row.completeness) == (10, Verdict.MISSING, 0.9)
    assert row.losses == (Place("broker", 0, 10, ((40, 50),)),)


def test_ten_that_were_written_twice_are_a_surplus_of_their_partition() -> None:
    story = Story()
    story.report(WEB, numbers(100), numbers(50, 1))
    story.report(LIVE, offsets((0, 100)), offsets((0, 60), partition=1), read=(ReadRange(0, 0, 100), ReadRange(1, 0, 60)))
    row = story.row("broker")
    assert (row.surplus, row.missing, row.verdict) == (10, 0, Verdict.SURPLUS)
    assert row.surpluses == (Place("web", 1, 10, ()),)


def test_ten_that_were_written_twice_are_named_by_offset_if_the_producer_knows_its_own() -> None:
    story = Story()
    story.report(WEB, offsets((0, 50)))
    story.report(LIVE, offsets((0, 60)), read=(ReadRange(0, 0, 60),))
    assert story.row("broker").surpluses == (Place("web", 0, 10, ((50, 60),)),)


def test_loss_in_one_partition_does_not_hide_duplicates_in_another() -> None:
    story = Story()
    story.report(WEB, numbers(100), numbers(100, 1))
    story.report(LIVE, offsets((0, 90)), offsets((0, 110), partition=1), read=(ReadRange(0, 0, 90), ReadRange(1, 0, 110)))
    row = story.row("broker")
    assert (row.count, row.missing, row.surplus, row.verdict) == (200, 10, 10, Verdict.MISSING)


def test_what_a_consumer_read_again_counts_once_and_is_shown_apart(story: Story) -> None:
    story.report(BILLING, offsets((0, 70)))
    story.report(BILLING, offsets((50, 100)))
    row = story.row("billing")
    assert (row.count, row.bytes, row.repeated, row.surplus, row.verdict) == (100, 1_000, 20, 0, Verdict.COMPLETE)


def test_a_mirror_without_times_is_judged_by_the_offsets_of_its_source(story: Story) -> None:
    story.report(LIVE, offsets((100, 120), bucket=END), read=(ReadRange(0, 100, 120),))
    story.report(COPY, Count(ANY_BUCKET, 110, 1_100, 0, offsets=OffsetSet.of((0, 40), (50, 120))))
    story.report(OFFLINE, offsets((0, 40), (50, 95)), offsets((100, 120), bucket=END), read=(ReadRange(0, 0, 120),))
    lost_on_the_way, lost_at_the_target = story.row("copy"), story.row("broker", "offline")
    assert (lost_on_the_way.count, lost_on_the_way.losses) == (90, (Place("broker", 0, 10, ((40, 50),)),))
    assert (lost_at_the_target.count, lost_at_the_target.losses) == (85, (Place("copy", 0, 5, ((95, 100),)),))
    assert story.row("copy", bucket=END).verdict is Verdict.COMPLETE


def test_what_is_at_the_target_has_passed_a_mirror_that_was_killed_before_it_said_so(story: Story) -> None:
    story.report(COPY, Count(ANY_BUCKET, 10, 0, 0, offsets=OffsetSet.of((0, 10))))
    story.report(OFFLINE, offsets((0, 100)), read=(ReadRange(0, 0, 100),))
    assert (story.row("copy").count, story.row("copy").verdict) == (100, Verdict.COMPLETE)
    assert story.row("broker", "offline").verdict is Verdict.COMPLETE


def test_a_bucket_is_open_until_a_live_producer_is_past_it() -> None:
    story = Story()
    story.report(WEB, numbers(100), at=END + 5_000, is_last=False)
    story.report(LIVE, offsets((0, 90)), at=END + 6_000, read=(ReadRange(0, 0, 90),))
    assert story.row("broker", now=END + 7_000).verdict is Verdict.OPEN
    assert story.row("broker", now=END + 7_000).missing == 10, "numbers are given whatever the verdict is"


def test_a_bucket_is_open_until_the_log_was_read_after_the_last_word_of_its_producers() -> None:
    story = Story()
    story.report(LIVE, offsets((0, 90)), at=END + 19_000, read=(ReadRange(0, 0, 90),))
    story.report(WEB, numbers(100), at=END + 20_000)
    assert story.row("broker", now=END + 40_000).verdict is Verdict.OPEN
    story.report(LIVE, offsets((90, 100)), at=END + 21_000, read=(ReadRange(0, 90, 100),))
    assert story.row("broker", now=END + 40_000).verdict is Verdict.COMPLETE


def test_a_bucket_is_open_until_a_log_that_is_being_counted_has_been() -> None:
    story = Story()
    story.report(WEB, numbers(100))
    story.report(BILLING, offsets((0, 90)))
    awaited = Logs(awaited=frozenset({"live"}))
    assert story.row("billing").losses == (Place("web", 0, 10, ()),)
    assert story.row("billing", logs=awaited).verdict is Verdict.OPEN
    story.report(LIVE, offsets((0, 50)), at=CLOSED - 1, read=(ReadRange(0, 0, 50),))
    assert story.row("billing", logs=awaited).verdict is Verdict.OPEN
    story.report(LIVE, offsets((50, 100)), read=(ReadRange(0, 50, 100),))
    row = story.row("billing", logs=awaited)
    assert (row.verdict, row.losses) == (Verdict.MISSING, (Place("broker", 0, 10, ((90, 100),)),))


def test_a_log_that_cannot_be_counted_holds_nothing_up() -> None:
    story = Story()
    story.report(WEB, numbers(100))
    story.report(LIVE, offsets((0, 90)), at=CLOSED - 1, read=(ReadRange(0, 0, 90),))
    assert story.row("broker").verdict is Verdict.OPEN
    assert story.row("broker", logs=Logs(given_up=frozenset({"live"}))).verdict is Verdict.MISSING


def test_a_tier_without_offsets_that_is_alive_has_time_to_say_what_it_has() -> None:
    story = Story()
    story.report(WEB, numbers(100), at=END - 1)
    story.report(BILLING, numbers(60), at=END + 9_999, is_last=False)
    assert (story.row("billing", now=END + 20_000).verdict, story.row("billing", now=END + 20_000).missing) == (Verdict.OPEN, 40)
    story.report(BILLING, numbers(30), at=END + 19_999)
    assert story.row("billing", now=END + 20_000).verdict is Verdict.OPEN, "the other reporter is alive"
    assert story.row("billing", now=END + 60_000).verdict is Verdict.MISSING, "it fell silent"


def test_what_lies_ahead_of_a_consumer_that_is_alive_is_late_and_what_lies_behind_is_missing(story: Story) -> None:
    story.report(BILLING, offsets((0, 60)), is_last=False)
    assert (story.row("billing").verdict, story.row("billing").missing) == (Verdict.LATE, 40)
    assert story.row("billing", now=CLOSED + 60_000).verdict is Verdict.MISSING, "it fell silent"
    behind = Story()
    behind.ledger.merge(story.ledger)
    behind.report(BILLING, offsets((80, 100)), is_last=False)
    assert behind.row("billing").verdict is Verdict.MISSING


def test_what_a_producer_that_was_killed_had_not_reported_is_unknown_not_a_surplus() -> None:
    story = Story()
    story.report(WEB, numbers(80), at=END - 1_000, is_last=False)
    story.report(LIVE, offsets((0, 100)), read=(ReadRange(0, 0, 100),))
    assert (story.row("broker").verdict, story.row("broker").surplus) == (Verdict.UNKNOWN, 20)
    assert story.row("web").verdict is Verdict.UNKNOWN


def test_a_producer_that_was_killed_with_nothing_unreported_is_confirmed_by_the_broker() -> None:
    story = Story()
    story.report(WEB, numbers(100), at=END - 1_000, is_last=False)
    story.report(LIVE, offsets((0, 100)), read=(ReadRange(0, 0, 100),))
    assert {row.verdict for row in judge(story.ledger, now_ms=CLOSED + 1_000)} == {Verdict.COMPLETE}


def test_what_producers_reported_and_the_broker_has_not_is_a_loss_even_if_one_was_killed() -> None:
    story = Story()
    story.report(WEB, numbers(100), at=END - 1_000, is_last=False)
    story.report(LIVE, offsets((0, 90)), read=(ReadRange(0, 0, 90),))
    assert (story.row("broker").verdict, story.row("broker").missing) == (Verdict.MISSING, 10)


def test_without_producers_the_broker_is_the_reference() -> None:
    story = Story()
    story.report(LIVE, offsets((0, 100)), read=(ReadRange(0, 0, 100),))
    story.report(BILLING, offsets((0, 90)))
    assert [row.verdict for row in judge(story.ledger, now_ms=CLOSED + 1_000)] == [Verdict.COMPLETE, Verdict.MISSING]


def test_without_a_broker_consumers_are_compared_with_producers() -> None:
    story = Story()
    story.report(WEB, numbers(100))
    story.report(BILLING, offsets((0, 90)))
    assert story.row("billing").losses == (Place("web", 0, 10, ()),)


def test_a_consumer_does_not_answer_for_what_was_there_before_it_began(story: Story) -> None:
    story.report(BILLING, offsets((30, 100)))
    assert (story.row("billing").verdict, story.row("billing").expected) == (Verdict.COMPLETE, 70)


def test_a_consumer_that_handled_nothing_of_a_later_bucket_has_lost_it(story: Story) -> None:
    story.report(BILLING, offsets((0, 100)))
    story.report(LIVE, offsets((100, 120), bucket=END), read=(ReadRange(0, 100, 120),))
    row = story.row("billing", bucket=END)
    assert (row.count, row.missing, row.verdict) == (0, 20, Verdict.MISSING)


def test_a_tier_that_was_never_declared_is_unknown_and_the_others_are_judged(story: Story) -> None:
    story.report(origin("who", Kind.CONSUMER, "elsewhere"), numbers(5))
    assert (story.row("who", "elsewhere").verdict, story.row("broker").verdict) == (Verdict.UNKNOWN, Verdict.COMPLETE)


def test_sets_that_became_coarse_are_compared_by_their_numbers() -> None:
    story = Story()
    coarse = OffsetSet((0, 200), holes=100)
    story.report(LIVE, Count(BUCKET, 100, 0, 0, offsets=coarse), read=(ReadRange(0, 0, 200),))
    story.report(BILLING, Count(BUCKET, 90, 0, 0, offsets=OffsetSet((0, 200), holes=110)))
    assert story.row("billing").losses == (Place("broker", 0, 10, ()),)


def test_messages_without_a_time_have_a_row_of_their_own() -> None:
    story = Story()
    story.report(WEB, Count(NO_TIME, 10, 0, 0))
    story.report(LIVE, offsets((0, 9), bucket=NO_TIME), read=(ReadRange(0, 0, 9),))
    assert (story.row("broker", bucket=NO_TIME, now=CLOSED + 60_000).missing) == 1


@pytest.mark.parametrize("bucket", [0, 4_102_444_800_000], ids=["1970", "2100"])
def test_clocks_that_are_years_off_hold_nothing_up(bucket: int) -> None:
    story = Story()
    story.report(WEB, Count(bucket, 10, 0, 0))
    story.report(LIVE, offsets((0, 10), bucket=bucket), at=CLOSED + 20_000, read=(ReadRange(0, 0, 10),))
    assert story.row("broker", bucket=bucket, now=CLOSED + 60_000).verdict is Verdict.COMPLETE


def test_a_reporter_whose_clock_is_years_behind_does_not_keep_buckets_open(story: Story) -> None:
    made = report(numbers(0), reporter=UUID(int=99), by=WEB, sent_ms=5, progress_ms=5)
    story.apply(made)
    assert story.row("broker").verdict is Verdict.COMPLETE
    assert [one.has_wrong_clock for one in story.ledger.head.reporters.values()] == [False, False, True]
