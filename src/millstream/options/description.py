"""Options as DescribeConfigs answers them: value, source, and the chain of synonyms from the strongest setting down to the default."""

from collections.abc import Collection, Mapping
from itertools import dropwhile
from typing import NamedTuple

from millstream.options.broker import BROKER_OPTIONS
from millstream.options.group import GROUP_OPTIONS
from millstream.options.option import Option, OptionType, OptionValue
from millstream.options.resolution import format_value, resolve_topic
from millstream.options.settings import BrokerSettings, ConfigSource
from millstream.options.topic import TOPIC_OPTIONS


class Synonym(NamedTuple):
    """One setting that gives, or would give, the value."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedOption(NamedTuple):
    """One row of DescribeConfigs."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    type: OptionType
    documentation: str
    is_read_only: bool
    is_sensitive: bool


def describe_topic(overrides: Mapping[str, str], broker: BrokerSettings, *, names: Collection[str] | None = None) -> list[DescribedOption]:
    """The options of a topic; all of them if `names` is None or empty. Names that do not exist are left out, as Kafka does."""
    values = resolve_topic(overrides, broker.texts)
    rows = []
    for option in _selected(TOPIC_OPTIONS, names):
        if option.is_own and not names and option.name not in overrides:
            continue
        synonyms = _broker_synonyms(option.synonyms, broker)
        if option.name in overrides:
            value = format_value(option, values[option.name])
            synonyms.insert(0, Synonym(option.name, _shown(option, value), ConfigSource.DYNAMIC_TOPIC))
        rows.append(_row(option, values[option.name], synonyms, is_read_only=False))
    return rows


def describe_broker(broker: BrokerSettings, *, names: Collection[str] | None = None) -> list[DescribedOption]:
    """The options of a broker; all of them if `names` is None or empty."""
    return [
        _row(
            option,
            broker.value(option.name),
            _broker_synonyms((option.name, *option.synonyms), broker),
            is_read_only=option.is_read_only or option.is_fixed,
        )
        for option in _selected(BROKER_OPTIONS, names)
    ]


def describe_group(broker: BrokerSettings) -> list[DescribedOption]:
    """The options of a group, which are those of the broker; Kafka describes them as defaults and names no synonym."""
    rows = []
    for option in GROUP_OPTIONS.values():
        value = broker.value(option.synonyms[0])
        rows.append(_row(option, value, [Synonym(option.name, format_value(option, value), ConfigSource.DEFAULT)], is_read_only=False))
    return rows


def _selected(options: Mapping[str, Option], names: Collection[str] | None) -> list[Option]:
    # What is asked for is looked up, in the order of the table: a request may ask for one option of the broker thousands of times.
    chosen = sorted(name for name in set(names) if name in options) if names else options
    return [options[name] for name in chosen if not options[name].is_internal]


def _row(option: Option, value: OptionValue, synonyms: list[Synonym], *, is_read_only: bool) -> DescribedOption:
    return DescribedOption(
        name=option.name,
        value=None if option.is_sensitive else format_value(option, value),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms=tuple(synonyms),
        type=option.type,
        documentation=option.documentation,
        is_read_only=is_read_only,
        is_sensitive=option.is_sensitive,
    )


def _broker_synonyms(names: tuple[str, ...], broker: BrokerSettings) -> list[Synonym]:
    """Settings of the broker under any of the names, layer by layer, then the defaults that are there.

    As in Kafka the list begins with the first name: what stands before it would be stronger, and other units alone are not listed.
    """
    synonyms = [
        Synonym(name, _shown(BROKER_OPTIONS[name], layer[name]), source)
        for source, layer in broker.layers
        for name in names
        if name in layer
    ]
    defaults = [BROKER_OPTIONS[name] for name in names if BROKER_OPTIONS[name].default is not None]
    synonyms += [Synonym(option.name, _shown(option, option.default), ConfigSource.DEFAULT) for option in defaults]
    return list(dropwhile(lambda synonym: synonym.name != names[0], synonyms))


def _shown(option: Option, text: str | None) -> str | None:
    return None if option.is_sensitive else text
