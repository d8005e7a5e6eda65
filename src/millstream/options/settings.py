"""What is set on a broker, in layers, and the value that holds: an immutable picture that is swapped whole when something changes.

Strongest first, as in Kafka: set for this broker while it runs, set for all brokers while they run, given at start, the default.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property

from millstream.options.broker import BROKER_OPTIONS
from millstream.options.option import OptionValue, default_value, parse_value
from millstream.options.validation import find_option, validate_broker_values

_NOTHING: Mapping[str, str] = {}


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class BrokerSettings:
    """The options of one broker, checked when they are put together."""

    def __init__(
        self,
        static: Mapping[str, str] = _NOTHING,
        *,
        dynamic_default: Mapping[str, str] = _NOTHING,
        dynamic: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.static = dict(static)
        self.dynamic_default = dict(dynamic_default)
        self.dynamic = dict(dynamic)
        for layer in (self.static, self.dynamic_default, self.dynamic):
            validate_broker_values(layer)
        self.texts: Mapping[str, str] = self.static | self.dynamic_default | self.dynamic
        """What is set, the strongest layer winning, as text: the `broker` argument of `resolve_topic`."""

    @cached_property
    def layers(self) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
        """The layers that can be set, strongest first."""
        return (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (ConfigSource.STATIC_BROKER, self.static),
        )

    def with_dynamic(self, *, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]) -> "BrokerSettings":
        """The same broker with other settings made while it runs."""
        return BrokerSettings(self.static, dynamic=dynamic, dynamic_default=dynamic_default)

    def value(self, name: str) -> OptionValue:
        """The typed value of an option; None where neither it nor a default is set."""
        option = find_option(BROKER_OPTIONS, name)
        text = self.texts.get(name)
        return default_value(option) if text is None else parse_value(option, text)

    def integer(self, name: str) -> int:
        """The value of a number option."""
        value = self.value(name)
        assert type(value) is int, f"{name} is not a whole number"
        return value

    def boolean(self, name: str) -> bool:
        """The value of a true-or-false option."""
        value = self.value(name)
        assert isinstance(value, bool), f"{name} is not a boolean"
        return value

    def text(self, name: str) -> str | None:
        """The value of a text option."""
        value = self.value(name)
        assert value is None or isinstance(value, str), f"{name} is not a text"
        return value

    def elements(self, name: str) -> tuple[str, ...]:
        """The value of a list option; empty where nothing is set."""
        value = self.value(name)
        assert value is None or isinstance(value, tuple), f"{name} is not a list"
        return value or ()
