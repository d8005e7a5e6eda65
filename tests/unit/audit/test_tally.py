import pytest

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import Count, Delay
from millstream.audit.tally import Tally


def tally_of(*runs: tuple[int, int], size: int = 0) -> Tally:
    tally = Tally()
    for start, end in runs:
        tally.count += end - start
        tally.add_offsets(start, end)
    tally.bytes = size
    return tally


def test_without_offsets_there_is_a_number() -> None:
    tally = Tally()
    tally.count, tally.bytes, tally.malformed, tally.control, tally.aborted = 3, 30, 1, 2, 4
    assert tally.counts(600, 1) == [Count(600, 3, 30, 1, malformed=1, control=2, aborted=4)]


def test_runs_that_follow_each_other_are_one_interval() -> None:
    assert tally_of((5, 6), (6, 7), (7, 10)).counts(0, 0) == [Count(0, 5, 0, 0, offsets=OffsetSet.of((5, 10)))]


def test_offsets_that_came_again_are_counts_of_their_own() -> None:
    counts = tally_of((0, 10), (5, 8), (6, 12), size=190).counts(0, 0)
    assert [count.offsets for count in counts] == [OffsetSet.of((0, 12)), OffsetSet.of((6, 8)), OffsetSet.of((5, 10))]
    assert [count.count for count in counts] == [12, 2, 5]
    assert [count.bytes for count in counts] == [120, 20, 50]


def test_few_delays_are_exact() -> None:
    tally = tally_of((0, 100))
    tally.add_delay(1, 94)
    tally.add_delay(7, 4)
    tally.add_delay(15, 2)
    assert tally.counts(0, 0)[0].delay == Delay(mean=(94 + 28 + 30) // 100, p95=7, p99=15, max=15)


@pytest.mark.parametrize("scale", [1, 37, 1_000, 3_600_000])
def test_a_percentile_is_right_within_an_eighth(scale: int) -> None:
    tally = Tally()
    for number in range(1000):
        tally.add_delay(number * scale, 1)
    delay = tally.counts(0, 0)[0].delay
    assert delay is not None
    assert 950 * scale <= delay.p95 <= 950 * scale * 9 / 8
    assert 990 * scale <= delay.p99 <= 999 * scale
    assert (delay.mean, delay.max) == (499 * scale + scale // 2, 999 * scale)


def test_a_clock_that_is_behind_makes_no_delay_negative() -> None:
    tally = Tally()
    tally.add_delay(-5, 2)
    assert tally.counts(0, 0)[0].delay == Delay(0, 0, 0, 0)
