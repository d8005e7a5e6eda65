"""One option: its name, type, default and the values it takes, and how its text becomes a value.

Options travel and are stored as text, exactly as a person or a client wrote it; `parse_value` is the one place where the text becomes a
typed value, with the rules of Kafka's `ConfigDef` (numbers in plain decimal, booleans in any case, lists split at commas).

An option is *obeyed*, *fixed* or *without effect*. A fixed option is one that Kafka has and Millstream knows but does not act on: it is
described with its value, and setting it to that same value is accepted (tools that copy a topic's whole configuration do it), setting it to
anything else is refused. An option without effect is about a part that does not exist here, so that no client could see whether it was
obeyed: it is taken, kept and shown. So whatever a person can set has its effect, or there is nothing for it to have an effect on.

Here are no tables (`topic`, `broker`) and no decisions about sources (`resolution`, `description`).
"""

import math
import re
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from millstream.errors import InvalidConfig

OptionValue = bool | int | float | str | tuple[str, ...] | None


class OptionType(IntEnum):
    """The types of Kafka's configuration; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Check(NamedTuple):
    """A rule for values: what it allows, in words that complete "it takes ...", and whether a value is allowed."""

    allows: str
    accepts: Callable[[OptionValue], bool]


class Option(NamedTuple):
    """One documented option."""

    name: str
    type: OptionType
    default: str | None
    """Text of the default, None where Kafka has none (the value then comes from another option)."""
    documentation: str
    check: Check | None = None
    synonyms: tuple[str, ...] = ()
    """Broker options that give the value when nothing more specific is set, the strongest first."""
    is_read_only: bool = False
    """Only settable when the broker starts."""
    is_sensitive: bool = False
    """The value is never shown."""
    is_internal: bool = False
    """For tests of Kafka and Millstream: obeyed and documented, but not listed to clients."""
    is_fixed: bool = False
    """Known, but not acted on here: only its default is accepted."""
    without_effect: str = ""
    """Why any value is as good as another: what the option is about does not exist here."""
    is_own: bool = False
    """Kafka does not have it: clients see it where it is set, or asked for by its name."""
    may_have_gaps: bool = False
    """A list in which nothing between two commas is nothing, where others refuse it."""

    @property
    def allows(self) -> str:
        """What the option takes, in words."""
        if self.is_fixed:
            return f"only {self.default!r}"
        return self.check.allows if self.check else _TYPE_WORDS[self.type]


MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
_BITS = {OptionType.SHORT: 16, OptionType.INT: 32, OptionType.LONG: 64}
_DECIMAL = re.compile(r"[+-]?[0-9]{1,19}")
_TYPE_WORDS = {
    OptionType.BOOLEAN: "true or false",
    OptionType.STRING: "a text",
    OptionType.INT: "a whole number of 32 bits",
    OptionType.SHORT: "a whole number of 16 bits",
    OptionType.LONG: "a whole number of 64 bits",
    OptionType.DOUBLE: "a number",
    OptionType.LIST: "a list separated by commas",
    OptionType.CLASS: "the name of a class",
    OptionType.PASSWORD: "a secret text",
}


def at_least(lowest: int) -> Check:
    """Numbers from `lowest` on."""
    return Check(f"a number of at least {lowest}", lambda value: isinstance(value, int | float) and value >= lowest)


def between(lowest: int, highest: int) -> Check:
    """Numbers from `lowest` to `highest`, both included."""
    return Check(f"a number from {lowest} to {highest}", lambda value: isinstance(value, int | float) and lowest <= value <= highest)


def unlimited_or_at_least(lowest: int) -> Check:
    """-1 for "no limit", or numbers from `lowest` on."""
    return Check(
        f"-1 (no limit) or a number of at least {lowest}",
        lambda value: isinstance(value, int | float) and (value == -1 or value >= lowest),
    )


def one_of(*choices: str) -> Check:
    """Exactly one of the given words."""
    return Check("one of " + ", ".join(choices), lambda value: value in choices)


def one_of_in_any_case(*choices: str) -> Check:
    """One of the given words, in small or capital letters."""
    return Check("one of " + ", ".join(choices), lambda value: isinstance(value, str) and value.lower() in choices)


def some_of(*choices: str) -> Check:
    """A list of the given words, perhaps an empty one."""
    return Check(
        "a list of " + ", ".join(choices),
        lambda value: isinstance(value, tuple) and all(element in choices for element in value),
    )


def one_element(what: str) -> Check:
    """A list with one element."""
    return Check(f"one {what}", lambda value: isinstance(value, tuple) and len(value) == 1)


def at_least_one_of(*choices: str) -> Check:
    """A list of the given words that is not empty."""
    return Check(
        "a list of at least one of " + ", ".join(choices),
        lambda value: isinstance(value, tuple) and bool(value) and all(element in choices for element in value),
    )


def parse_value(option: Option, text: str) -> OptionValue:
    """The typed value of `text`; raises `InvalidConfig` naming option, value and what is allowed."""
    value = _convert(option, text.strip())
    if option.is_fixed and value != default_value(option):
        raise InvalidConfig(f"{option.name}={text} is not supported by Millstream: it takes {option.allows} here")
    if option.check and not option.check.accepts(value):
        raise _refused(option, text)
    return value


def default_value(option: Option) -> OptionValue:
    """The typed default, None where there is none."""
    return None if option.default is None else _convert(option, option.default)


def _convert(option: Option, text: str) -> OptionValue:
    match option.type:
        case OptionType.BOOLEAN:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise _refused(option, text)
            return lowered == "true"
        case OptionType.INT | OptionType.SHORT | OptionType.LONG:
            return _convert_whole_number(option, text)
        case OptionType.DOUBLE:
            return _convert_double(option, text)
        case OptionType.LIST:
            return _convert_list(option, text)
        case _:
            return text


def _convert_whole_number(option: Option, text: str) -> int:
    # int() alone would take "1_000" and digits of other scripts, which Kafka's tools refuse.
    if not _DECIMAL.fullmatch(text):
        raise _refused(option, text)
    number = int(text)
    limit = 1 << (_BITS[option.type] - 1)
    if not -limit <= number < limit:
        raise _refused(option, text)
    return number


def _convert_double(option: Option, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _refused(option, text) from None
    if math.isnan(number):
        raise _refused(option, text)
    return number


def _convert_list(option: Option, text: str) -> tuple[str, ...]:
    if not text:
        return ()
    elements = tuple(dict.fromkeys(element.strip() for element in text.split(",")))
    if option.may_have_gaps:
        return tuple(element for element in elements if element)
    if "" in elements:
        raise _refused(option, text)
    return elements


def _refused(option: Option, text: str) -> InvalidConfig:
    shown = "[hidden]" if option.is_sensitive else text
    return InvalidConfig(f"invalid value {shown!r} for {option.name}: it takes {option.allows}")
