"""Bytes by fastavro: schemas of a registry made ready for it, and values to bytes and back.

A schema whose top level is `bytes` is written as it is, without Avro's length, as all of Confluent's clients do it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

from penstock.registry.errors import SerializationFailed

FASTAVRO_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    OverflowError,
    fastavro.schema.SchemaParseException,
)
"""What fastavro raises for values that do not fit and for bytes that are none of a schema's."""


@dataclass(frozen=True, slots=True)
class AvroCodec:
    """A schema that fastavro has parsed, and the full name of its record, if it is one."""

    parsed: Any
    record_name: str | None
    is_plain_bytes: bool

    def encode(self, value: object, prefix: bytes, *, strict: bool = False) -> bytes:
        """The value's bytes after the prefix."""
        if self.is_plain_bytes:
            if not isinstance(value, bytes | bytearray | memoryview):
                raise SerializationFailed(f"The schema is bytes, and the value is a {type(value).__name__}.")
            return prefix + bytes(value)
        buffer = BytesIO(prefix)
        buffer.seek(len(prefix))
        try:
            fastavro.schemaless_writer(buffer, self.parsed, value, strict=strict)
        except FASTAVRO_ERRORS as error:
            raise SerializationFailed(f"The value does not fit the schema {self.record_name or ''}: {error}") from error
        return buffer.getvalue()

    def decode(self, message: bytes, start: int, reader: "AvroCodec | None") -> Any:
        """The value in a message from `start` on, as the reader's schema sees it."""
        if self.is_plain_bytes:
            return message[start:]
        buffer = BytesIO(message)
        buffer.seek(start)
        try:
            return fastavro.schemaless_reader(buffer, self.parsed, None if reader is None else reader.parsed)
        except FASTAVRO_ERRORS as error:
            name = self.record_name or "of the writer"
            raise SerializationFailed(f"The message cannot be read with the schema {name}: {str(error) or type(error).__name__}") from error


def avro_codec(text: str, referenced: Iterable[str] = ()) -> AvroCodec:
    """The schema of a text; `referenced` are the texts of those it refers to, the needed ones first."""
    names: dict[str, Any] = {}
    try:
        for one in referenced:
            fastavro.parse_schema(json.loads(one), named_schemas=names)
        document = json.loads(text)
        parsed = fastavro.parse_schema(document, named_schemas=names)
    except (*FASTAVRO_ERRORS, RecursionError) as error:
        raise SerializationFailed(f"The schema cannot be used: {error}") from error
    record = parsed.get("name") if isinstance(parsed, dict) and parsed.get("type") in ("record", "error", "enum", "fixed") else None
    kind = document.get("type") if isinstance(document, dict) else document
    is_plain = kind == "bytes" and not (isinstance(document, dict) and "logicalType" in document)
    return AvroCodec(parsed, record, is_plain)
