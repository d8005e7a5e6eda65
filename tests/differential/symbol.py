"""Names for what each broker chooses for itself: topic ids, member ids, producer ids, fetch sessions, ports.

A request holds a `Symbol` where such a value belongs, and each side puts in its own. What an answer brings is turned back: a value that a
side knows becomes its symbol again. A value that both sides show for the first time in the same place gets a new symbol, so nothing has to
be told to this module; a value that one side knows and the other does not is a difference.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Symbol(NamedTuple):
    """Stands for a value that differs between the brokers."""

    kind: str
    number: int

    def __repr__(self) -> str:
        return f"<{self.kind} {self.number}>"


class Unknown(NamedTuple):
    """A value of such a kind that the side has not shown before."""

    kind: str
    value: Any


class PerSide(NamedTuple):
    """A part of a request that is made for each side from its own values, such as a batch with a producer id in it."""

    text: str
    make: Callable[["Symbols"], object]

    def __repr__(self) -> str:
        return self.text


class Symbols:
    """What the symbols mean on one side."""

    def __init__(self) -> None:
        self._values: dict[Symbol, Any] = {}
        self._symbols: dict[tuple[str, Any], Symbol] = {}

    def bind(self, symbol: Symbol, value: object) -> None:
        """From now on the symbol means this value here."""
        self._values[symbol] = value
        self._symbols[symbol.kind, value] = symbol

    def named(self, kind: str, value: object) -> Symbol | Unknown:
        """The symbol of a value that was shown before."""
        return self._symbols.get((kind, value)) or Unknown(kind, value)

    def resolve(self, part: Any) -> Any:
        """A request, or a part of one, with this side's values."""
        if isinstance(part, Symbol):
            return self._values[part]
        if isinstance(part, PerSide):
            return part.make(self)
        if isinstance(part, Mapping):
            return {name: self.resolve(value) for name, value in part.items()}
        if isinstance(part, list):
            return [self.resolve(value) for value in part]
        return part
