from millstream.audit.counter import MAX_REPORT_BYTES, Counter
from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_BUCKET, ANY_PARTITION, NO_TIME, Count, Report
from millstream.audit.reports.report_json import encode_report
from tests.unit.audit.some_reports import BUCKET_MS, REPORTER, origin


def counter() -> Counter:
    return Counter(origin(), bucket_ms=BUCKET_MS, reporter=REPORTER)


def found_counts(reports: list[Report]) -> set[tuple[int, int, int, int]]:
    return {(count.bucket, count.partition, count.count, count.bytes) for report in reports for count in report.counts}


def test_messages_are_counted_by_bucket_and_partition() -> None:
    ours = counter()
    ours.add("orders", 0, 10)
    ours.add("orders", 599_999, 10)
    ours.add("orders", 600_000, 5)
    ours.add("orders", 600_000, 5, partition=3)
    ours.add("orders", -1, 1)
    assert found_counts(ours.take(7)) == {
        (0, ANY_PARTITION, 2, 20),
        (600_000, ANY_PARTITION, 1, 5),
        (600_000, 3, 1, 5),
        (NO_TIME, ANY_PARTITION, 1, 1),
    }


def test_what_was_taken_is_not_reported_again() -> None:
    ours = counter()
    ours.add("orders", 0, 10)
    ours.take(1)
    ours.add_batch("orders", 0, 500, 60_000)
    assert found_counts(ours.take(2)) == {(0, ANY_PARTITION, 500, 60_000)}


def test_offsets_are_reported_with_what_was_counted() -> None:
    ours = counter()
    ours.add("orders", 0, 10, partition=0, offset=7)
    ours.add("orders", 0, 10, partition=0, offset=8)
    ours.add_batch("orders", 0, 10, 100, partition=0, first_offset=20)
    assert ours.take(1)[0].counts == (Count(0, 12, 120, 0, offsets=OffsetSet.of((7, 9), (20, 30))),)


def test_ranges_that_were_passed_on_have_no_bucket() -> None:
    ours = counter()
    ours.add_range("orders", 0, 5, 10, size=77)
    assert ours.take(1)[0].counts == (Count(ANY_BUCKET, 5, 77, 0, offsets=OffsetSet.of((5, 10))),)


def test_a_message_that_made_no_sense_is_counted_and_said() -> None:
    ours = counter()
    ours.add("orders", 0, 10)
    ours.add_malformed("orders", 0)
    assert ours.take(1)[0].counts == (Count(0, 1, 10, malformed=1),)


def test_sequences_are_per_topic_and_have_no_gap() -> None:
    ours = counter()
    ours.touch("a")
    reports = ours.take(1)
    ours.add("a", 0, 1)
    ours.add("b", 0, 1)
    reports += ours.take(2)
    assert [(report.topic, report.sequence, report.sent_ms) for report in reports] == [("a", 0, 1), ("a", 1, 2), ("b", 0, 2)]


def test_a_topic_is_announced_when_it_is_first_touched_and_after_a_rest() -> None:
    ours = counter()
    hello = [ours.says_hello]
    ours.touch("orders")
    hello.append(ours.says_hello)
    assert [(report.counts, report.is_last) for report in ours.take(1)] == [((), False)]
    hello.append(ours.says_hello)
    assert [report.is_last for report in ours.take(2)] == [True], "nothing counted for an interval: it rests"
    assert ours.take(3) == []
    ours.add("orders", 0, 1)
    hello.append(ours.says_hello)
    assert [(report.sequence, report.is_last) for report in ours.take(4)] == [(2, False)]
    assert hello == [False, True, False, True]


def test_the_last_reports_have_what_was_counted_and_say_so() -> None:
    ours = counter()
    ours.add("orders", 0, 10)
    reports = ours.take(1, is_last=True, progress_ms=3)
    assert [(report.is_last, report.progress_ms, len(report.counts)) for report in reports] == [(True, 3, 1)]


def test_reports_that_are_too_large_are_split_and_only_the_end_is_the_last() -> None:
    ours = counter()
    for partition in range(50):
        for offset in range(0, 2_000, 2):
            ours.add("orders", 0, 10, partition=partition, offset=offset)
    reports = ours.take(1, is_last=True)
    assert len(reports) > 3
    assert all(len(encode_report(report)) <= MAX_REPORT_BYTES for report in reports)
    assert [report.is_last for report in reports] == [False] * (len(reports) - 1) + [True]
    assert [report.sequence for report in reports] == list(range(len(reports)))
    assert sum(count.count for report in reports for count in report.counts) == 50_000
