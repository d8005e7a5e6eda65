from collections.abc import Collection

import pytest

from millstream.cli.group.lag import UNKNOWN, Lag, Waiting, all_lags, lags, total
from millstream.cli.position import OffsetRange
from millstream.topic_partition import TopicPartition

PLACE = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000


class Reader:
    """Every message has the same age, or none is found."""

    def __init__(self, age_ms: int | None = 1500) -> None:
        self.asked: list[Waiting] = []
        self._age_ms = age_ms

    def timestamps(self, wanted: Collection[Waiting]) -> dict[Waiting, int]:
        self.asked += wanted
        return {} if self._age_ms is None else dict.fromkeys(wanted, NOW_MS - self._age_ms)


def lag_of(committed: int | None, partition: OffsetRange | None, reader: Reader | None = None) -> Lag:
    ranges = {} if partition is None else {PLACE: partition}
    return lags(reader or Reader(), {PLACE: committed}, ranges=ranges, now_ms=NOW_MS)[PLACE]


@pytest.mark.parametrize(
    ("committed", "partition", "expected"),
    [
        pytest.param(4, OffsetRange(0, 10), Lag(6, 1.5), id="distance to the end and age of the first message that waits"),
        pytest.param(10, OffsetRange(0, 10), Lag(0, 0.0), id="everything read"),
        pytest.param(99, OffsetRange(0, 10), Lag(0, 0.0), id="beyond the end is not negative"),
        pytest.param(2, OffsetRange(10, 10), Lag(8, 0.0), id="messages that expired count and do not wait"),
        pytest.param(None, OffsetRange(3, 10), Lag(7, 1.5), id="nothing committed: everything that is there"),
        pytest.param(None, OffsetRange(3, 3), Lag(0, 0.0), id="nothing committed and nothing there"),
        pytest.param(4, None, UNKNOWN, id="a partition that is gone"),
    ],
)
def test_lag_in_messages_and_seconds(committed: int | None, partition: OffsetRange | None, expected: Lag) -> None:
    assert lag_of(committed, partition) == expected


def test_clock_that_is_ahead_makes_no_negative_age() -> None:
    assert lag_of(4, OffsetRange(0, 10), Reader(-5000)) == Lag(6, 0.0)


def test_message_that_did_not_come_leaves_the_seconds_open() -> None:
    assert lag_of(4, OffsetRange(0, 10), Reader(None)) == Lag(6, None)


def test_each_message_is_fetched_once_for_all_groups() -> None:
    reader = Reader()
    all_lags(reader, [{PLACE: 4}, {PLACE: 4}, {PLACE: 7}, {PLACE: 10}], ranges={PLACE: OffsetRange(0, 10)}, now_ms=NOW_MS)
    assert reader.asked == [(PLACE, 4), (PLACE, 7)]


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ([], Lag(0, 0.0)),
        ([Lag(3, 1.0), Lag(4, 9.0), UNKNOWN], Lag(7, 9.0)),
        ([Lag(0, 0.0), Lag(0, 0.0)], Lag(0, 0.0)),
        ([Lag(3, None)], Lag(3, None)),
        ([UNKNOWN], Lag(None, None)),
    ],
    ids=str,
)
def test_total_adds_messages_and_takes_the_longest_wait(behind: list[Lag], expected: Lag) -> None:
    assert total(behind) == expected
