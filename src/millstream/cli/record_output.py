"""How `consume` and `dump-log` write a record: as JSON, as a row, raw, or in a format of one's own.

    json   {"topic": ..., "partition": 0, "offset": 7, "timestamp": 1700000000000, "key": "k", "value": "v", "headers": [["name", "value"]]}
           bytes that are not UTF-8 come as {"base64": "..."}; null is null. `produce --input json` takes the same lines
    table  one row per record, columns of a fixed width, so that rows can appear one by one
    raw    the bytes of the value (or key, separator, value) and a newline: what `produce` reads

A key or value that was decoded (`Decoded`) is a JSON document: part of the line in json, its text elsewhere. Only raw output and formats
hand on what a terminal might obey; the table escapes it. Colours are for terminals.
"""

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Self

from millstream.cli.output import format_timestamp
from millstream.cli.plain_json import json_value, plain_json

Headers = Sequence[tuple[str, bytes | None]]

DIM, NAME, RESET = "\x1b[2m", "\x1b[36m", "\x1b[0m"


class RecordFormat(StrEnum):
    """Formats of records."""

    RAW = "raw"
    JSON = "json"
    TABLE = "table"


class Decoded(bytes):
    """A key or value that was decoded: the text of a JSON document, and the document."""

    document: Any

    @classmethod
    def of(cls, value: Any) -> Self:
        """From any value that Avro can hold."""
        document = plain_json(value)
        return cls.with_text(json.dumps(document, ensure_ascii=False).encode(), document)

    @classmethod
    def with_text(cls, text: bytes, document: Any) -> Self:
        """A document whose text is known."""
        decoded = cls(text)
        decoded.document = document
        return decoded


class ShownRecord(NamedTuple):
    """A record as the formats need it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def part(self, content: bytes | None) -> Any:
        """Its key or value in JSON."""
        return content.document if isinstance(content, Decoded) else json_value(content)


class RecordFormatter:
    """Turns records into the bytes that go to stdout, each ending with a newline."""

    def __init__(self, record_format: RecordFormat, *, key_separator: bytes | None = None, in_colour: bool = False) -> None:
        self._format = {RecordFormat.RAW: self._raw, RecordFormat.JSON: self._json, RecordFormat.TABLE: self._row}[record_format]
        self._key_separator = key_separator
        self._dumps: Callable[[dict[str, Any]], str] = coloured_json if in_colour else _dumps
        self._colours = (DIM, NAME, RESET) if in_colour else ("", "", "")
        self.heading = _row(("partition", "offset", "timestamp", "key", "value")) if record_format is RecordFormat.TABLE else b""

    def __call__(self, record: ShownRecord) -> bytes:
        return self._format(record)

    def _raw(self, record: ShownRecord) -> bytes:
        value = record.value or b""
        if self._key_separator is None:
            return value + b"\n"
        return (record.key or b"") + self._key_separator + value + b"\n"

    def _json(self, record: ShownRecord) -> bytes:
        document = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": record.part(record.key),
            "value": record.part(record.value),
            "headers": [[name, json_value(value)] for name, value in record.headers],
        }
        return self._dumps(document).encode() + b"\n"

    def _row(self, record: ShownRecord) -> bytes:
        value = readable(record.value) + "".join(f"  {name}={readable(content)}" for name, content in record.headers)
        return _row((record.partition, record.offset, format_timestamp(record.timestamp), readable(record.key), value), self._colours)


def _dumps(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False)


def coloured_json(document: dict[str, Any]) -> str:
    """The same document with its own names in a colour."""
    fields = (f"{NAME}{json.dumps(name)}{RESET}: {json.dumps(value, ensure_ascii=False)}" for name, value in document.items())
    return "{" + ", ".join(fields) + "}"


def readable(content: bytes | None) -> str:
    """The bytes as a person can read them on one line, with nothing in it that a terminal would obey."""
    if content is None:
        return "(null)"
    text = content.decode(errors="backslashreplace")
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in text)


def _row(cells: tuple[object, object, object, object, object], colours: tuple[str, str, str] = ("", "", "")) -> bytes:
    partition, offset, timestamp, key, value = cells
    dim, name, reset = colours
    return f"{dim}{partition!s:>9}  {offset!s:>12}  {timestamp!s:<24}{reset}  {name}{key!s:<16}{reset}  {value}\n".encode()
