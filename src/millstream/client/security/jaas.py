"""A line of Java's login configuration (JAAS), as Kafka's clients take their user and password in `sasl.jaas.config`:

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="a \\"quoted\\" word";

One module, its control flag, options as name=value, a semicolon at the end. Values stand in double or single quotes where they are more
than a word. What cannot be read is said without its text, because the text has the password in it.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_HEAD: Final = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)")
_OPTION: Final = re.compile(
    r"""\s+(?P<name>[\w.-]+)\s*=\s*(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'|(?P<word>[^\s;"']+))"""
)
_END: Final = re.compile(r"\s*;\s*")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_NAMED_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class LoginModule(NamedTuple):
    """The name of the class without its package, and its options; the options hold passwords and are not to be shown."""

    name: str
    options: Mapping[str, str]


def parse_jaas(text: str) -> LoginModule:
    """The one module of the line; ValueError says what is wrong with it."""
    head = _HEAD.match(text)
    if head is None or head["flag"].lower() not in _FLAGS:
        raise ValueError('it must begin with a login module and "required"')
    options: dict[str, str] = {}
    position = head.end()
    while (option := _OPTION.match(text, position)) is not None:
        options[option["name"]] = _value(option)
        position = option.end()
    if _END.fullmatch(text, position) is None:
        last = f" after the option {list(options)[-1]!r}" if options else ""
        raise ValueError(f'it must go on with name="value" or end with a semicolon{last}')
    return LoginModule(head["module"].rpartition(".")[2], options)


def _value(option: re.Match[str]) -> str:
    quoted = option["double"] if option["double"] is not None else option["single"]
    if quoted is None:
        return option["word"]
    return _ESCAPE.sub(lambda escape: _NAMED_ESCAPES.get(escape[1], escape[1]), quoted)
