"""How `consume` and `dump-log` write a record: as JSON, as a row, or raw.

    json   {"topic": ..., "partition": 0, "offset": 7, "timestamp": 1700000000000, "key": "k", "value": "v", "headers": [["name", "value"]]}
           bytes that are not UTF-8 come as {"base64": "..."}; null is null
    table  one row per record, columns of a fixed width, so that rows can appear one by one
    raw    the bytes of the value (or key, separator, value) and a newline: what `produce` reads

Only raw output hands on what a terminal might obey; the table escapes it.
"""

import base64
import json
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from millstream.cli.output import format_timestamp

Headers = Sequence[tuple[str, bytes | None]]


class RecordFormat(StrEnum):
    """Formats of records."""

    RAW = "raw"
    JSON = "json"
    TABLE = "table"


class ShownRecord(NamedTuple):
    """A record as the formats need it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class RecordFormatter:
    """Turns records into the bytes that go to stdout, each ending with a newline."""

    def __init__(self, record_format: RecordFormat, *, key_separator: bytes | None = None) -> None:
        self._format = {RecordFormat.RAW: self._raw, RecordFormat.JSON: self._json, RecordFormat.TABLE: self._row}[record_format]
        self._key_separator = key_separator
        self.heading = _row("partition", "offset", "timestamp", "key", "value") if record_format is RecordFormat.TABLE else b""

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
            "key": json_value(record.key),
            "value": json_value(record.value),
            "headers": [[name, json_value(value)] for name, value in record.headers],
        }
        return json.dumps(document, ensure_ascii=False).encode() + b"\n"

    def _row(self, record: ShownRecord) -> bytes:
        value = readable(record.value) + "".join(f"  {name}={readable(content)}" for name, content in record.headers)
        return _row(record.partition, record.offset, format_timestamp(record.timestamp), readable(record.key), value)


def json_value(content: bytes | None) -> str | dict[str, str] | None:
    """Text as text, other bytes as base64, null as null."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def readable(content: bytes | None) -> str:
    """The bytes as a person can read them on one line, with nothing in it that a terminal would obey."""
    if content is None:
        return "(null)"
    text = content.decode(errors="backslashreplace")
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in text)


def _row(partition: object, offset: object, timestamp: object, key: object, value: object) -> bytes:
    return f"{partition!s:>9}  {offset!s:>12}  {timestamp!s:<24}  {key!s:<16}  {value}\n".encode()
