"""Whether names and values are right, before anything is stored: the border where options from outside are checked.

Everything raises `InvalidConfig`, whose message names the option, the value and what is allowed. What a person typed on a command line or
in a file goes through `check_startup_values`, which says the same as a `UsageError`.
"""

from collections.abc import Mapping

from millstream.errors import InvalidConfig, UsageError
from millstream.options.broker import BROKER_OPTIONS
from millstream.options.foreign import advice_for
from millstream.options.group import GROUP_OPTIONS
from millstream.options.option import Option, parse_value
from millstream.options.topic import TOPIC_OPTIONS


def find_option(options: Mapping[str, Option], name: str) -> Option:
    """The option called `name`; raises `InvalidConfig` with the nearest names that exist."""
    option = options.get(name)
    if option is None:
        raise InvalidConfig(_unknown(options, name))
    return option


def validate_topic_overrides(overrides: Mapping[str, str]) -> None:
    """Check every option set on a topic, and those that have to fit together."""
    values = {name: parse_value(find_option(TOPIC_OPTIONS, name), text) for name, text in overrides.items()}
    _check_order(values, "min.compaction.lag.ms", "max.compaction.lag.ms")


def validate_broker_values(values: Mapping[str, str]) -> None:
    """Check every option set on a broker, and those that have to fit together."""
    parsed = {name: parse_value(find_option(BROKER_OPTIONS, name), text) for name, text in values.items()}
    _check_order(parsed, "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")


def validate_dynamic_broker_values(values: Mapping[str, str]) -> None:
    """Check options that are to change while the broker runs: those that are only read at start are refused."""
    for name in values:
        if find_option(BROKER_OPTIONS, name).is_read_only:
            raise InvalidConfig(f"{name} cannot be changed while the broker runs: set it with -X or in the file at start")
    validate_broker_values(values)


def startup_mistakes(values: Mapping[str, str]) -> list[str]:
    """Everything that is wrong with what a person gave at start, a sentence each."""
    mistakes = []
    for name, text in values.items():
        try:
            parse_value(find_option(BROKER_OPTIONS, name), text)
        except InvalidConfig as error:
            mistakes.append(str(error))
    if not mistakes:
        try:
            validate_broker_values(values)
        except InvalidConfig as error:
            mistakes.append(str(error))
    return mistakes


def check_startup_values(values: Mapping[str, str]) -> None:
    """Check what a broker is started with; raises one `UsageError` that names everything that is wrong."""
    if mistakes := startup_mistakes(values):
        raise UsageError("; ".join(mistakes))


def _check_order(values: Mapping[str, object], lower: str, upper: str) -> None:
    low, high = values.get(lower), values.get(upper)
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise InvalidConfig(f"{lower}={low} is above {upper}={high}")


def _unknown(options: Mapping[str, Option], name: str) -> str:
    if options is GROUP_OPTIONS:
        return f"unknown group option {name!r}: a group has {' and '.join(GROUP_OPTIONS)}"
    kind = "topic" if options is TOPIC_OPTIONS else "broker"
    other = BROKER_OPTIONS if options is TOPIC_OPTIONS else TOPIC_OPTIONS
    if name in other:
        where = "a broker option, not one of a topic" if options is TOPIC_OPTIONS else "a topic option: set it on the topic"
        return f"{name} is {where}" + _counterpart(options, name)
    advice = advice_for(name)
    if advice:
        return f"{kind} option {name} is Kafka's: {advice}"
    # Imported here: difflib is only needed to word this message.
    from difflib import get_close_matches

    nearest = get_close_matches(name, options, n=3, cutoff=0.7)
    hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
    return f"unknown {kind} option {name!r}{hint}"


def _counterpart(options: Mapping[str, Option], name: str) -> str:
    """Names the option that does on this side what `name` does on the other."""
    if options is TOPIC_OPTIONS:
        names = [option.name for option in TOPIC_OPTIONS.values() if name in option.synonyms]
    else:
        names = list(TOPIC_OPTIONS[name].synonyms)
    return f"; did you mean {' or '.join(names)}?" if names else ""
