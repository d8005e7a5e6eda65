import pytest

from millstream.cluster.replication_quota import LONGEST_PAUSE_S, ReplicationQuota, is_throttled
from tests.manual_clock import ManualClock

RATE = 1_000_000


@pytest.mark.parametrize("fetch_bytes", [1_000, 300_000, 1 << 20, 10 << 20])
@pytest.mark.parametrize("poll_ms", [1, 500])
def test_the_rate_holds_whatever_the_size_of_a_fetch_and_however_often_it_is_tried(fetch_bytes: int, poll_ms: int) -> None:
    """A fetch may bring much more than is asked for: a batch is never cut."""
    clock = ManualClock()
    quota, copied = ReplicationQuota(RATE, clock), 0
    for _ in range(100_000 // poll_ms):
        clock.advance(poll_ms)
        while not quota.is_exceeded:
            size = max(quota.largest_read(1 << 20), fetch_bytes)
            quota.count(size)
            copied += size
    assert copied == pytest.approx(100 * RATE, rel=0.12)


def test_no_pause_is_longer_than_that_of_kafkas_windows() -> None:
    clock = ManualClock()
    for rate in (0, 1, 1000):
        quota = ReplicationQuota(rate, clock)
        assert not quota.is_exceeded, "the first fetch passes"
        quota.count(1 << 30)
        quota.count(1 << 30)
        assert quota.pause_s == LONGEST_PAUSE_S
        clock.advance(int(LONGEST_PAUSE_S * 1000))
        assert not quota.is_exceeded


@pytest.mark.parametrize(
    ("replicas", "partition", "broker", "answer"),
    [
        ("", 0, 1, False),
        ("*", 7, 7, True),
        ("0:1,3:2", 0, 1, True),
        ("0:1,3:2", 3, 2, True),
        ("0:1,3:2", 3, 1, False),
        ("10:1", 0, 1, False),
    ],
)
def test_a_topic_names_replicas_by_partition_and_broker_or_all(replicas: str, partition: int, broker: int, answer: bool) -> None:
    assert is_throttled(frozenset(filter(None, replicas.split(","))), partition, broker) is answer
