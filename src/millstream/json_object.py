"""A JSON object of any origin, taken field by field: whatever is not as it must be is a ValueError that names the field.

For what is read from znodes and small files. A value that gets past here has the right type, numbers are in their range, and texts can be
sent to clients; `true` is no number, `1.0` and `"1"` are none either.
"""

import json
from typing import Final, Self

MAX_INT: Final = 2**31 - 1
MAX_TEXT_BYTES: Final = 32_767
"""The longest text that every version of Kafka's protocol can carry."""


class JsonObject:
    """Fields by name; `place` is where the object is in the whole, for messages."""

    __slots__ = ("_fields", "_place")

    def __init__(self, fields: dict[str, object], place: str = "") -> None:
        self._fields = fields
        self._place = place

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The object in `data`."""
        try:
            value = json.loads(data.decode())
        except UnicodeDecodeError:
            raise ValueError(f"it must be JSON in UTF-8, and begins with {data[:20]!r}") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"it must be JSON, and begins with {data[:20]!r}: {error}") from None
        except RecursionError:
            raise ValueError("JSON that is nested too deeply") from None
        return cls(_object(value, "it"))

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def integer(self, name: str, *, lowest: int = 0, highest: int = MAX_INT) -> int:
        """A whole number in the range."""
        return _integer(self._take(name), self._called(name), lowest, highest)

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers from 0 on, none of them twice."""
        values = self.items(name)
        found = tuple(_integer(value, self._called(name), 0, MAX_INT) for value in values)
        if len(set(found)) < len(found):
            raise ValueError(f"{self._called(name)} names a number twice: {list(found)[:20]}")
        return found

    def optional_integer(self, name: str, *, lowest: int = 0, highest: int = MAX_INT) -> int | None:
        """A whole number in the range, or null."""
        return None if self._take(name) is None else self.integer(name, lowest=lowest, highest=highest)

    def boolean(self, name: str) -> bool:
        """true or false."""
        value = self._take(name)
        if not isinstance(value, bool):
            raise _wrong(self._called(name), "true or false", value)
        return value

    def text(self, name: str) -> str:
        """A text that clients can be sent."""
        return _text(self._take(name), self._called(name))

    def optional_text(self, name: str) -> str | None:
        """A text, or null."""
        return None if self._take(name) is None else self.text(name)

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts."""
        return _texts(_object(self._take(name), self._called(name)), self._called(name))

    def counts(self, name: str) -> dict[str, int]:
        """An object of whole numbers from 0 to 32 767."""
        called = self._called(name)
        fields = _object(self._take(name), called)
        return {_text(key, f"a name in {called}"): _integer(value, f"{key[:80]!r} in {called}", 0, 32_767) for key, value in fields.items()}

    def all_texts(self) -> dict[str, str]:
        """The object itself, as one of texts."""
        return _texts(self._fields, self._place or "it")

    def objects(self, name: str) -> "list[JsonObject]":
        """A list of objects."""
        called = self._called(name)
        return [JsonObject(_object(value, f"{called}[{number}]"), f"{called}[{number}].") for number, value in enumerate(self.items(name))]

    def optional_object(self, name: str) -> "JsonObject | None":
        """An object, or null."""
        value, called = self._take(name), self._called(name)
        return None if value is None else JsonObject(_object(value, called), f"{called}.")

    def optional_items(self, name: str) -> list[object] | None:
        """A list of anything, or null."""
        return None if self._take(name) is None else self.items(name)

    def _take(self, name: str) -> object:
        if name not in self._fields:
            raise ValueError(f"{self._called(name)} is missing")
        return self._fields[name]

    def items(self, name: str) -> list[object]:
        """A list of anything."""
        value = self._take(name)
        if not isinstance(value, list):
            raise _wrong(self._called(name), "a list", value)
        return value

    def _called(self, name: str) -> str:
        return self._place + name


def _object(value: object, called: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _wrong(called, "a JSON object", value)
    return value


def _integer(value: object, called: str, lowest: int, highest: int) -> int:
    if type(value) is not int or not lowest <= value <= highest:
        raise _wrong(called, f"a whole number from {lowest} to {highest}", value)
    return value


def _text(value: object, called: str) -> str:
    if not isinstance(value, str):
        raise _wrong(called, "a text", value)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise _wrong(called, "a text of Unicode", value) from None
    if size > MAX_TEXT_BYTES:
        raise _wrong(called, f"a text of at most {MAX_TEXT_BYTES} bytes", value)
    return value


def _texts(fields: dict[str, object], called: str) -> dict[str, str]:
    return {_text(name, f"a name in {called}"): _text(value, f"{name[:80]!r} in {called}") for name, value in fields.items()}


def _wrong(called: str, wanted: str, value: object) -> ValueError:
    shown = ascii(value)
    return ValueError(f"{called} must be {wanted}, and is {shown if len(shown) <= 80 else shown[:80] + '...'}")
