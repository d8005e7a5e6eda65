"""What a producer has sent, minus what failed: counted when it was answered, in the bucket in which it is."""

import pytest

from millstream.audit.reports.report import Report
from millstream.audited import sent_counts
from millstream.audited.sent_counts import SentCounts
from millstream.audited.settings import AuditSettings

BUCKET_S = 600
START = 1_800_000_000.0
"""The start of a bucket."""


class Producing:
    """Counts whose clock and answers are moved by hand."""

    def __init__(self) -> None:
        self.now = START + 100
        self.ticks = 0.0
        self.answered_until = float("inf")
        self.hellos = 0
        self.partition: int | None = 0
        self.counts: SentCounts

    def is_known(self, _topic: str) -> bool:
        return self.partition is not None

    def for_keyless(self, _topic: str) -> int:
        assert self.partition is not None
        return self.partition

    def announce(self) -> None:
        self.hellos += 1

    def take(self, *, is_last: bool = False) -> list[Report]:
        return list(self.counts.take(int(self.now * 1000), is_last=is_last))

    def counted(self) -> dict[tuple[str, int], tuple[int, int]]:
        """What is reported now, by topic and bucket."""
        self.counts.settle()
        return {(report.topic, count.bucket): (count.count, count.bytes) for report in self.take() for count in report.counts}


@pytest.fixture
def producing(monkeypatch: pytest.MonkeyPatch) -> Producing:
    made = Producing()

    def monotonic() -> float:
        made.ticks += 1
        return made.ticks

    monkeypatch.setattr(sent_counts, "time", lambda: made.now)
    monkeypatch.setattr(sent_counts, "monotonic", monotonic)
    made.counts = SentCounts(AuditSettings("shop"), made, answered_until=lambda: made.answered_until, announce=made.announce)
    return made


def send(producing: Producing, count: int, size: int) -> None:
    lane = producing.counts.begin("orders")
    assert lane is not None
    producing.counts.add_unstamped(lane, count, size)


def bucket(number: int = 0) -> int:
    return int(START + number * BUCKET_S) * 1000


def test_what_was_answered_is_reported_once(producing: Producing) -> None:
    send(producing, 100, 1000)
    producing.counts.add(producing.counts.place("orders", 5_000_000, 0), 1, 3)
    assert producing.counted() == {("orders", bucket()): (100, 1000), ("orders", 4_800_000): (1, 3)}
    assert producing.counted() == {}


def test_what_was_not_answered_waits_and_what_comes_after_it_too(producing: Producing) -> None:
    producing.answered_until = 0.0
    send(producing, 5, 50)
    assert producing.counted() == {}
    send(producing, 7, 70)
    assert not producing.counts.settle()
    # What was sent before the first look is answered, what came after it is not.
    producing.answered_until = producing.ticks
    assert producing.counted() == {("orders", bucket()): (5, 50)}
    producing.answered_until = float("inf")
    assert producing.counted() == {("orders", bucket()): (7, 70)}


def test_a_failure_is_taken_off_its_bucket_even_if_it_is_known_before_the_count(producing: Producing) -> None:
    producing.counts.add_failure(producing.counts.place("orders", bucket() + 5, 0), 10)
    producing.counts.add_failure(producing.counts.unstamped_place("orders", producing.now, 0), 10)
    send(producing, 5, 50)
    assert producing.counted() == {("orders", bucket()): (3, 30)}
    producing.counts.add(producing.counts.place("orders", bucket(), 0), 2, 20)
    assert producing.counted() == {("orders", bucket()): (2, 20)}


def test_a_failure_that_is_known_too_early_is_made_up_for_later(producing: Producing) -> None:
    producing.counts.add(producing.counts.place("orders", bucket(), 0), 10, 40)
    producing.counts.add_failure(producing.counts.place("orders", bucket(), 0), 5000)
    assert producing.counted() == {("orders", bucket()): (9, 0)}
    producing.counts.add(producing.counts.place("orders", bucket(), 0), 1, 5000)
    assert producing.counted() == {("orders", bucket()): (1, 40)}


def test_near_the_end_of_a_bucket_messages_are_to_be_stamped(producing: Producing) -> None:
    producing.now = START + BUCKET_S - 5.1
    assert producing.counts.begin("orders") is not None
    producing.now = START + BUCKET_S - 5
    assert producing.counts.begin("orders") is None
    producing.now = START + BUCKET_S
    assert producing.counts.begin("orders") is not None


def test_a_failure_whose_time_is_not_exact_is_never_in_the_end_of_a_bucket(producing: Producing) -> None:
    producing.now = START + BUCKET_S
    send(producing, 2, 20)
    producing.counts.add_failure(producing.counts.unstamped_place("orders", producing.now - 0.003, 0), 10)
    assert producing.counted() == {("orders", bucket(1)): (1, 10)}


def test_a_report_is_left_out_if_a_bucket_ended_while_its_messages_were_handed_over(producing: Producing) -> None:
    lane = producing.counts.begin("orders")
    assert lane is not None
    producing.counts.begin("others")
    producing.now = START + BUCKET_S + 1
    producing.counts.add_unstamped(lane, 5, 50)
    producing.counts.add(producing.counts.place("others", bucket(), 0), 1, 1)
    producing.counts.settle()
    assert [report.topic for report in producing.take()] == ["others"]
    producing.counts.begin("orders")
    [after, _] = producing.take()
    assert (after.topic, after.sequence) == ("orders", 1)


def test_a_topic_is_announced_when_it_is_first_used_and_again_after_a_rest(producing: Producing) -> None:
    for _ in range(3):
        producing.counts.begin("orders")
    assert producing.hellos == 1
    [hello] = producing.take()
    assert (hello.sequence, hello.counts, hello.is_last) == (0, (), False)
    producing.counts.begin("orders")
    assert producing.hellos == 1
    assert [report.is_last for report in producing.take()] == [False]
    assert [report.is_last for report in producing.take()] == [True]
    assert producing.take() == []
    producing.counts.begin("orders")
    assert producing.hellos == 2


def test_progress_is_the_time_before_which_everything_is_answered(producing: Producing) -> None:
    producing.counts.begin("orders")
    producing.counts.settle()
    producing.answered_until = 0.0
    began = int(producing.now * 1000)
    send(producing, 1, 1)
    producing.now += 50
    producing.counts.settle()
    assert [report.progress_ms for report in producing.take()] == [began]
    producing.answered_until = float("inf")
    producing.counts.settle()
    assert [report.progress_ms for report in producing.take()] == [began + 50_000]


def test_what_goes_to_a_partition_is_counted_there(producing: Producing) -> None:
    send(producing, 5, 50)
    producing.partition = 3
    producing.now += 1
    send(producing, 7, 70)
    lane = producing.counts.begin("orders")
    assert lane is not None
    producing.counts.add_placed(lane, [1, 3, 1], 30)
    producing.counts.add_failure(producing.counts.place("orders", bucket(), 1), 10)
    producing.counts.settle()
    [report] = producing.take()
    assert {count.partition: count.count for count in report.counts} == {0: 5, 1: 1, 3: 8}
    assert sum(count.bytes for count in report.counts) == 140


def test_while_partitions_are_not_known_messages_are_sent_one_by_one(producing: Producing) -> None:
    producing.partition = None
    assert producing.counts.begin("orders") is None
    producing.partition = 2
    lane = producing.counts.begin("orders")
    assert lane is not None
    assert lane.place[2] == 2


def test_a_process_that_begins_anew_has_another_reporter_and_nothing_counted(producing: Producing) -> None:
    send(producing, 5, 50)
    [before] = producing.take()
    producing.counts.restart()
    send(producing, 7, 70)
    assert producing.counted() == {("orders", bucket()): (7, 70)}
    send(producing, 1, 1)
    [after] = producing.take()
    assert (before.reporter != after.reporter, before.sequence, after.sequence) == (True, 0, 1)


def test_what_is_sent_in_a_transaction_counts_when_it_is_committed(producing: Producing) -> None:
    producing.counts.hold()
    send(producing, 5, 50)
    assert not producing.counts.settle()
    assert producing.counted() == {}
    producing.counts.release(is_committed=True)
    assert producing.counted() == {("orders", bucket()): (5, 50)}


def test_what_was_aborted_was_never_sent_and_its_failures_are_nothing_to_the_next(producing: Producing) -> None:
    producing.counts.hold()
    send(producing, 5, 50)
    producing.counts.add_failure(producing.counts.unstamped_place("orders", producing.now, 0), 10)
    producing.counts.release(is_committed=False)
    assert producing.counts.settle()
    producing.counts.hold()
    send(producing, 2, 20)
    producing.counts.release(is_committed=True)
    assert producing.counted() == {("orders", bucket()): (2, 20)}
