from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.options.settings import BrokerSettings
from tests.manual_clock import ManualClock


def settings(**rates: str) -> BrokerSettings:
    return BrokerSettings(dynamic={f"{side}.replication.throttled.rate": rate for side, rate in rates.items()})


def test_quotas_come_and_go_with_the_rates() -> None:
    quotas, first = ReplicationQuotas(ManualClock()), settings(leader="1000")
    assert not quotas.apply(settings())
    assert quotas.apply(first)
    assert not quotas.apply(first)
    assert quotas.leader is not None
    assert (quotas.leader.bytes_per_s, quotas.follower) == (1000, None)
    assert quotas.apply(settings(leader="1000", follower="5"))
    assert quotas.apply(settings(follower="5"))
    assert quotas.leader is None


def test_what_was_counted_outlives_another_setting_but_not_another_rate() -> None:
    quotas = ReplicationQuotas(ManualClock())
    quotas.apply(settings(leader="1000"))
    assert quotas.leader is not None
    quotas.leader.count(5000)
    quotas.apply(settings(leader="1000", follower="5"))
    assert quotas.leader.is_exceeded
    quotas.apply(settings(leader="2000"))
    assert not quotas.leader.is_exceeded
