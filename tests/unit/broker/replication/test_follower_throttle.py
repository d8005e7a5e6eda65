from types import SimpleNamespace
from typing import cast

import pytest

from millstream.broker.replication.follower_throttle import LOOK_AGAIN_S, FollowerThrottle
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.client.codecs.replica_fetch import ReplicaKey
from millstream.cluster.follower import Follower
from millstream.log.config import LogConfig
from millstream.options.settings import BrokerSettings
from tests.manual_clock import ManualClock

RATE = {"follower.replication.throttled.rate": "1000"}


def key(index: int) -> ReplicaKey:
    return bytes(16), index


def follower(index: int, throttled: str) -> Follower:
    """Broker 2 follows a partition, and has nothing of it yet."""
    partition = SimpleNamespace(index=index, broker=SimpleNamespace(node_id=2))
    return cast("Follower", SimpleNamespace(partition=partition, fetch_offset=0, log=SimpleNamespace(config=config(throttled))))


def config(throttled: str) -> LogConfig:
    return LogConfig.of({"follower.replication.throttled.replicas": throttled})


@pytest.fixture
def throttle() -> FollowerThrottle:
    quotas = ReplicationQuotas(ManualClock())
    quotas.apply(BrokerSettings(dynamic=RATE))
    return FollowerThrottle(quotas)


def test_what_the_topic_does_not_name_any_more_does_not_wait_for_others_that_it_names(throttle: FollowerThrottle) -> None:
    followers = [follower(index, "0:2,1:2") for index in range(2)]
    for index, one in enumerate(followers):
        throttle.took(key(index), one, 100_000, high_watermark=10)
    assert {left for left, _ in throttle.left_out()} == {key(0), key(1)}
    for one in followers:
        one.log.config = config("1:2")
    assert {left for left, _ in throttle.left_out()} == {key(1)}
    assert throttle.is_due


def test_what_waits_is_looked_at_again_soon_however_low_the_rate(throttle: FollowerThrottle) -> None:
    throttle.took(key(0), follower(0, "*"), 1 << 30, high_watermark=10)
    assert list(throttle.left_out()) == [(key(0), LOOK_AGAIN_S)]
