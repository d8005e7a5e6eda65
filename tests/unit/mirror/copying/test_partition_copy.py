from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.mirror.copying.copied_batches import CopiedBatches
from millstream.mirror.copying.partition_copy import MAX_UNDER_WAY, MAX_WAITING_BYTES, Append, PartitionCopy, Phase
from millstream.topic_partition import TopicPartition


def batches(*ranges: tuple[int, int], size: int = 10, epoch: int = 3) -> CopiedBatches:
    return CopiedBatches(memoryview(bytes(size)), ranges, (), epoch, 777)


@pytest.fixture
def copy() -> PartitionCopy:
    made = PartitionCopy(TopicPartition("orders", 0))
    made.begin(target_end=100, source_start=0, source_end=500, last_epoch=2)
    return made


def test_batches_are_taken_in_order_each_where_the_one_before_ends(copy: PartitionCopy) -> None:
    copy.fetched([batches((100, 110))], high_watermark=500, log_start=0)
    copy.fetched([batches((115, 120))], high_watermark=500, log_start=0)
    first, second = copy.take(), copy.take()
    assert (first.expected_end, second.expected_end, copy.position, copy.has_batches) == (100, 110, 120, False)
    copy.confirmed(first)
    copy.confirmed(second)
    assert (copy.confirmed_to, copy.confirmed_epoch, copy.lag, copy.held_bytes) == (120, 3, 380, 0)
    assert (copy.copied_offsets, copy.skipped_offsets, copy.copied_bytes, copy.last_timestamp) == (15, 5, 20, 777)


def test_nothing_of_a_former_generation_counts(copy: PartitionCopy) -> None:
    copy.fetched([batches((100, 110))], high_watermark=500, log_start=0)
    old = copy.take()
    copy.failed("the link was cut", now=50.0)
    assert (copy.phase, copy.is_current(old), copy.held_bytes, copy.retry_at > 50) == (Phase.STARTING, False, 0, True)
    copy.begin(target_end=110, source_start=0, source_end=500, last_epoch=3)
    assert (copy.position, copy.taken_to, copy.confirmed_to, copy.error) == (110, 110, 110, None)


def test_pauses_grow_until_something_works(copy: PartitionCopy) -> None:
    pauses = []
    for _ in range(12):
        copy.failed("away", now=0.0)
        pauses.append(copy.retry_at)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 10.0)
    copy.begin(target_end=0, source_start=0, source_end=0, last_epoch=-1)
    copy.fetched([], high_watermark=0, log_start=0)
    copy.failed("away", now=0.0)
    assert copy.retry_at == 0.1


def test_what_the_source_has_deleted_is_skipped(copy: PartitionCopy) -> None:
    copy.begin(target_end=100, source_start=130, source_end=500, last_epoch=2)
    assert (copy.position, copy.taken_to, copy.last_epoch) == (130, 100, -1)
    copy.fetched([batches((130, 140))], high_watermark=500, log_start=130)
    append = copy.take()
    copy.confirmed(append)
    assert (append.expected_end, copy.skipped_offsets) == (100, 30)


def test_no_more_is_fetched_than_may_be_held_and_no_more_is_sent_than_may_be_under_way(copy: PartitionCopy) -> None:
    position = 100
    while copy.wants_fetch:
        copy.fetched([batches((position, position + 1), size=MAX_WAITING_BYTES // 6)], high_watermark=500, log_start=0)
        position += 1
    taken = []
    while copy.has_batches:
        taken.append(copy.take())
    assert (len(taken), copy.wants_fetch, copy.has_batches) == (MAX_UNDER_WAY, False, False)
    for append in taken:
        copy.confirmed(append)
    size = MAX_WAITING_BYTES // 6
    assert (copy.wants_fetch, copy.has_batches) == (True, True)
    assert (copy.fits(size, 1), copy.fits(size - 1, 1), copy.fits(size, 0)) == (True, False, False)


def test_a_paused_partition_fetches_nothing_and_a_stopped_one_stays_stopped(copy: PartitionCopy) -> None:
    copy.is_paused = True
    assert (copy.wants_fetch, copy.state) == (False, "paused")
    copy.stop("other data")
    copy.failed("away", now=0.0)
    assert (copy.phase, copy.error, copy.state, copy.wants_fetch) == (Phase.STOPPED, "other data", "stopped", False)


class Run:
    """A source, a target that takes an append only where its log ends, and a copy; answers may be lost, and other mirrors may write."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.source = [(number * 3, number * 3 + 2) for number in range(100)]
        self.target: list[tuple[int, int]] = []
        self.under_way: list[Append] = []
        self.copy = PartitionCopy(TopicPartition("orders", 0))
        self.begin()

    @property
    def end(self) -> int:
        return self.target[-1][1] if self.target else 0

    def begin(self) -> None:
        self.copy.begin(target_end=self.end, source_start=0, source_end=300, last_epoch=-1)
        self.under_way.clear()

    def after(self, offset: int) -> tuple[int, int]:
        return next(one for one in self.source if one[0] >= offset)

    def deliver(self, append: Append) -> bool:
        if append.expected_end != self.end:
            return False
        self.target.extend(append.batches.ranges)
        return True

    def fetch(self) -> None:
        if self.copy.wants_fetch:
            self.copy.fetched([batches(self.after(self.copy.position))], high_watermark=300, log_start=0)

    def take(self) -> None:
        if self.copy.has_batches:
            self.under_way.append(self.copy.take())

    def answer(self) -> None:
        if self.under_way:
            append = self.under_way.pop(0)
            if self.deliver(append):
                self.copy.confirmed(append)
            else:
                self.begin()

    def lose(self) -> None:
        """The link is cut, before or after the target has written."""
        if self.under_way and self.random.random() < 0.5:
            self.deliver(self.under_way[0])
        self.copy.failed("cut", now=0.0)
        self.begin()

    def rival(self) -> None:
        self.target.append(self.after(self.end))


@given(st.lists(st.sampled_from([Run.fetch, Run.take, Run.answer, Run.lose, Run.rival]), max_size=60), st.integers())
def test_whatever_fails_the_target_has_each_batch_of_the_source_once_and_in_order(steps: list[object], seed: int) -> None:
    run = Run(Random(seed))
    for step in steps:
        step(run)  # type: ignore[operator]
        assert run.target == run.source[: len(run.target)]
        assert run.copy.confirmed_to <= run.end
