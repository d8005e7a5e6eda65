"""The value that holds for a topic: set on the topic, else on the broker, else the default. Pure functions over texts."""

from collections.abc import Mapping

from millstream.options.broker import BROKER_OPTIONS
from millstream.options.option import Option, OptionType, OptionValue, default_value, parse_value
from millstream.options.topic import TOPIC_OPTIONS

_MILLISECONDS_PER_UNIT = {"minutes": 60_000, "hours": 3_600_000}


def resolve_topic(overrides: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, OptionValue]:
    """Typed values of all topic options under Kafka's names, for `LogConfig.of`; `broker` is what is set on the broker.

    `internal.segment.bytes` is folded into `segment.bytes`, as in Kafka.
    """
    values = {name: _resolve(option, overrides, broker) for name, option in TOPIC_OPTIONS.items() if not option.is_internal}
    small_segment = overrides.get("internal.segment.bytes")
    if small_segment is not None:
        values["segment.bytes"] = parse_value(TOPIC_OPTIONS["internal.segment.bytes"], small_segment)
    return values


def format_value(option: Option, value: OptionValue) -> str | None:
    """The text in which Kafka shows a value."""
    if value is None:
        return None
    if option.type is OptionType.BOOLEAN:
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _resolve(option: Option, overrides: Mapping[str, str], broker: Mapping[str, str]) -> OptionValue:
    own = overrides.get(option.name)
    if own is not None:
        return parse_value(option, own)
    for synonym in option.synonyms:
        text = broker.get(synonym)
        if text is not None:
            return _in_milliseconds(synonym, parse_value(BROKER_OPTIONS[synonym], text))
    return default_value(option)


def _in_milliseconds(name: str, value: OptionValue) -> OptionValue:
    """Values of `log.retention.hours` and the like in the unit of the topic option; negative stays "no limit"."""
    factor = _MILLISECONDS_PER_UNIT.get(name.rpartition(".")[2])
    if factor is None or not isinstance(value, int):
        return value
    return value * factor if value >= 0 else -1
