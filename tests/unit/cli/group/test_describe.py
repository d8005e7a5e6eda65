import pytest

from millstream.cli.group.consumer_groups import Committed
from millstream.cli.group.describe import UNKNOWN, Lag, lags
from millstream.cli.kafka_client import Cluster
from millstream.cli.start_position import OffsetRange
from millstream.topic_partition import TopicPartition

PLACE = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000


def lag_of(committed: int, partition: OffsetRange | None, monkeypatch: pytest.MonkeyPatch, *, age_ms: int | None = 1500) -> Lag:
    """The lag of one partition whose first waiting message has this age."""
    asked: list[dict[TopicPartition, int]] = []

    def first_timestamps(_: Cluster, starts: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        asked.append(dict(starts))
        return {} if age_ms is None else dict.fromkeys(starts, NOW_MS - age_ms)

    monkeypatch.setattr("millstream.cli.group.describe._first_timestamps", first_timestamps)
    ranges = {} if partition is None else {PLACE: partition}
    return lags(Cluster("nowhere:1", {}), {PLACE: Committed(committed, "")}, ranges=ranges, now_ms=NOW_MS)[PLACE]


def test_lag_is_the_distance_to_the_end_and_the_age_of_the_first_message_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lag_of(4, OffsetRange(0, 10), monkeypatch) == Lag(6, 1.5)


def test_group_that_has_read_everything_has_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lag_of(10, OffsetRange(0, 10), monkeypatch) == Lag(0, 0.0)


def test_offset_beyond_the_end_is_no_negative_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lag_of(99, OffsetRange(0, 10), monkeypatch) == Lag(0, 0.0)


def test_messages_that_expired_before_they_were_read_count_but_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lag_of(2, OffsetRange(10, 10), monkeypatch) == Lag(8, 0.0)


def test_clock_that_is_ahead_makes_no_negative_age(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lag_of(4, OffsetRange(0, 10), monkeypatch, age_ms=-5000) == Lag(6, 0.0)


def test_message_that_did_not_come_leaves_the_seconds_open(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lag_of(4, OffsetRange(0, 10), monkeypatch, age_ms=None) == Lag(6, None)


def test_partition_that_is_gone_has_no_lag_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lag_of(4, None, monkeypatch) == UNKNOWN
