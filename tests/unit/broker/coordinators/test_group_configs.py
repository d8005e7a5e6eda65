import pytest

from millstream.broker.coordinators.group_configs import group_settings
from millstream.errors import UsageError
from millstream.options.settings import BrokerSettings


def test_defaults_are_kafkas_except_that_a_new_group_hardly_waits() -> None:
    settings = group_settings(BrokerSettings())
    assert (settings.min_session_timeout_ms, settings.max_session_timeout_ms) == (6_000, 1_800_000)
    assert settings.initial_rebalance_delay_ms == 50
    assert settings.offsets_retention_ms == 7 * 24 * 3_600_000
    assert (settings.consumer_session_timeout_ms, settings.consumer_heartbeat_interval_ms) == (45_000, 5_000)
    assert settings.consumer_assignors == ("uniform", "range")


def test_options_have_their_effect() -> None:
    given = {
        "group.max.size": "3",
        "offset.metadata.max.bytes": "10",
        "offsets.retention.minutes": "2",
        "group.consumer.assignors": "range",
    }
    settings = group_settings(BrokerSettings(given))
    assert (settings.max_group_size, settings.offset_metadata_max_bytes) == (3, 10)
    assert (settings.offsets_retention_ms, settings.consumer_assignors) == (120_000, ("range",))


@pytest.mark.parametrize(
    "given",
    [
        {"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "9"},
        {"group.consumer.session.timeout.ms": "1000"},
        {"group.consumer.heartbeat.interval.ms": "16000"},
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is above"):
        group_settings(BrokerSettings(given))
