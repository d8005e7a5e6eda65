import pytest

from millstream.log.config import LogConfig
from millstream.options.resolution import format_value, resolve_topic
from millstream.options.topic import TOPIC_OPTIONS


def test_without_settings_a_topic_has_the_defaults_of_a_log() -> None:
    assert LogConfig.of(resolve_topic({}, {})) == LogConfig()


def test_the_topic_wins_over_the_broker_and_the_broker_over_the_default() -> None:
    broker = {"log.segment.bytes": "2000000", "log.retention.bytes": "77"}
    values = resolve_topic({"segment.bytes": "3000000"}, broker)
    assert (values["segment.bytes"], values["retention.bytes"], values["flush.messages"]) == (3_000_000, 77, 2**63 - 1)


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finer_unit_wins_and_coarse_ones_become_milliseconds(broker: dict[str, str], retention_ms: int) -> None:
    assert resolve_topic({}, broker)["retention.ms"] == retention_ms


def test_rolling_takes_hours_too() -> None:
    values = resolve_topic({}, {"log.roll.hours": "1", "log.roll.jitter.hours": "1"})
    assert (values["segment.ms"], values["segment.jitter.ms"]) == (3_600_000, 3_600_000)


def test_the_internal_segment_size_overrides_the_public_one() -> None:
    assert resolve_topic({"internal.segment.bytes": "100", "segment.bytes": "3000000"}, {})["segment.bytes"] == 100


def test_every_field_of_a_log_config_is_given_by_an_option() -> None:
    names = {name.replace(".", "_") for name in resolve_topic({}, {})}
    assert set(LogConfig.__dataclass_fields__) <= names


@pytest.mark.parametrize(("name", "text"), [(name, option.default) for name, option in TOPIC_OPTIONS.items() if not option.is_internal])
def test_values_are_shown_as_kafka_writes_them(name: str, text: str) -> None:
    assert format_value(TOPIC_OPTIONS[name], resolve_topic({}, {})[name]) == text
