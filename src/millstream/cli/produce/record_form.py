"""What a line becomes: a record to send. Pure.

Lines are bytes and stay as they are, unless they are JSON as `consume --output json` writes it:

    {"key": "k", "value": "v", "headers": [["name", "value"]], "timestamp": 1700000000000, "partition": 0}

Text is sent as UTF-8, {"base64": "..."} as the bytes it stands for, null as null, any other value as its JSON text (or encoded, if a schema
is given). `topic` and `offset` are allowed and have no effect: the command says where to, and the broker at which offset.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from millstream.errors import UsageError

ANY_PARTITION: Final = -1
NO_TIMESTAMP: Final = 0
_FIELDS: Final = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})

Headers = Sequence[tuple[str, bytes | None]]
Encode = Callable[[Any], bytes | None]
"""From a JSON document to what is sent."""


class Outgoing(NamedTuple):
    """A record to send; the timestamp is librdkafka's, 0 for now."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int = ANY_PARTITION
    timestamp: int = NO_TIMESTAMP


@dataclass(frozen=True)
class RecordForm:
    """A record of each line: with these headers, and with this key or one from the line."""

    partition: int = ANY_PARTITION
    headers: Headers = ()
    key: bytes | None = None
    key_separator: bytes | None = None
    empty_is_null: bool = False
    encode_key: Encode | None = None
    encode_value: Encode | None = None

    def __call__(self, line: bytes) -> Outgoing:
        key, value = self.split(line)
        return Outgoing(
            key if self.encode_key is None or key is None else self.encode_key(_document(key)),
            value if self.encode_value is None or value is None else self.encode_value(_document(value)),
            self.headers,
            self.partition,
        )

    def split(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value of a line."""
        key, value = self.key, line
        if self.key_separator:
            before, separator, after = line.partition(self.key_separator)
            if not separator:
                raise UsageError(f"The line {_excerpt(line)} has no key separator {self.key_separator.decode()!r}.")
            key, value = before, after
        return key, None if self.empty_is_null and not value else value


@dataclass(frozen=True)
class JsonForm:
    """A record of each line of JSON; the headers given here are added to its own."""

    partition: int = ANY_PARTITION
    headers: Headers = ()
    by_key: bool = False
    """Whether the key decides about the partition, whatever the line says."""
    encode_key: Encode | None = None
    encode_value: Encode | None = None

    def __call__(self, line: bytes) -> Outgoing:
        record = _document(line)
        if not isinstance(record, dict) or record.keys() - _FIELDS:
            raise UsageError(
                f"The line {_excerpt(line)} is no record: an object with {', '.join(sorted(_FIELDS))} is expected, or some of them."
            )
        partition = record.get("partition")
        if self.partition != ANY_PARTITION or self.by_key or partition is None:
            partition = self.partition
        timestamp = record.get("timestamp")
        try:
            return Outgoing(
                _content(record.get("key"), self.encode_key),
                _content(record.get("value"), self.encode_value),
                [*_headers(record.get("headers")), *self.headers],
                _whole(partition),
                max(_whole(NO_TIMESTAMP if timestamp is None else timestamp), NO_TIMESTAMP),
            )
        except (TypeError, ValueError) as error:
            raise UsageError(f"The line {_excerpt(line)} is no record: {error}.") from None


def _content(value: Any, encode: Encode | None) -> bytes | None:
    if value is None:
        return None
    if encode is not None:
        return encode(value)
    return text if (text := _bytes_of(value)) is not None else json.dumps(value, ensure_ascii=False).encode()


def _bytes_of(value: Any) -> bytes | None:
    """Text or base64 as bytes; None if it is neither."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            raise ValueError("what is called base64 is none") from None
    return None


def _headers(value: Any) -> Headers:
    pairs = list(value.items()) if isinstance(value, dict) else value or []
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError("headers must be pairs of a name and a value")
    return [(_text(name), _content(content, None)) for name, content in pairs]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("the name of a header must be text")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r} is no number for a partition or a timestamp")
    return value


def _document(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The line {_excerpt(line)} is no JSON: {error}.") from None


def _excerpt(line: bytes) -> str:
    text = line[:40].decode(errors="replace")
    return repr(text + ("..." if len(line) > 40 else ""))
