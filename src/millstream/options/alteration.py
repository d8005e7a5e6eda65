"""Changing what is set on a topic or broker: the four operations of IncrementalAlterConfigs (KIP-339), as a pure function.

The result is a new mapping; nothing is stored here, and the caller validates the result as a whole (`validation`).
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from millstream.errors import InvalidConfig, InvalidRequest
from millstream.options.option import Option, OptionType
from millstream.options.validation import find_option


class AlterOperation(IntEnum):
    """What to do with an option; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One change to one option."""

    name: str
    operation: int
    value: str | None


def apply_incremental(
    current: Mapping[str, str],
    alterations: Iterable[Alteration],
    *,
    options: Mapping[str, Option],
    inherited: Mapping[str, str],
) -> dict[str, str]:
    """What is set after the changes; `inherited` holds the values an unset list option has now, to which APPEND adds."""
    changed = dict(current)
    seen: set[str] = set()
    for alteration in alterations:
        if alteration.name in seen:
            raise InvalidRequest(f"{alteration.name} is changed twice in one request")
        seen.add(alteration.name)
        _apply(changed, alteration, options=options, inherited=inherited)
    return changed


def _apply(changed: dict[str, str], alteration: Alteration, *, options: Mapping[str, Option], inherited: Mapping[str, str]) -> None:
    name, value = alteration.name, alteration.value
    try:
        operation = AlterOperation(alteration.operation)
    except ValueError:
        raise InvalidRequest(f"unknown operation {alteration.operation} for {name}") from None
    if operation is AlterOperation.DELETE:
        # Also of a name that is not known (any more): Kafka does not mind, and it is the way to get rid of one.
        changed.pop(name, None)
        return
    if value is None:
        raise InvalidRequest(f"{operation.name} of {name} needs a value")
    if operation is AlterOperation.SET:
        changed[name] = value
        return
    option = find_option(options, name)
    if option.type is not OptionType.LIST:
        raise InvalidConfig(f"{operation.name} works on lists, and {name} is not one: use SET")
    listed = changed.get(name, inherited.get(name, option.default or ""))
    elements = _elements(listed) if listed else []
    named = _elements(value)
    if operation is AlterOperation.APPEND:
        elements += [element for element in named if element not in elements]
    else:
        elements = [element for element in elements if element not in named]
    changed[name] = ",".join(elements)


def _elements(text: str) -> list[str]:
    """As Kafka splits what is appended and taken away: nothing is one empty element, which most lists then refuse."""
    elements = [element.strip() for element in text.split(",")]
    while len(elements) > 1 and not elements[-1]:
        elements.pop()
    return elements
