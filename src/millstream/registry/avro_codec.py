"""Values to bytes and back, by fastavro; what a schema is, and whether it is one, `millstream.avro` says.

A value whose schema is `bytes` at the top level, whatever logical type it has, is written without Avro's length, as all of Confluent's
clients do it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from millstream.avro.parser import SchemaError, parse_schema
from millstream.avro.schema import Enum, Fixed, Record
from millstream.registry.errors import SerializationFailed
from millstream.registry.extra import INSTALL

try:
    import fastavro
except ModuleNotFoundError:
    raise ModuleNotFoundError(f"Avro needs fastavro: {INSTALL}", name="fastavro") from None

FASTAVRO_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    OverflowError,
    fastavro.schema.SchemaParseException,
    fastavro.read.SchemaResolutionError,
)
"""What fastavro raises for values that do not fit and for bytes that are none of a schema's."""


@dataclass(frozen=True, slots=True)
class AvroCodec:
    """A schema made ready for fastavro, and its full name, if it has one."""

    parsed: Any
    record_name: str | None
    is_bytes: bool

    def encode(self, value: object, prefix: bytes, *, strict: bool = False) -> bytes:
        """The value's bytes after the prefix."""
        buffer = BytesIO()
        try:
            if strict:
                fastavro.schemaless_writer(buffer, self.parsed, value, strict=True)
            else:
                fastavro.schemaless_writer(buffer, self.parsed, value)
        except FASTAVRO_ERRORS as error:
            raise SerializationFailed(f"The value does not fit the schema {self.record_name or ''}: {error}") from error
        if self.is_bytes:
            fastavro.schemaless_reader(_rewound(buffer), "long", None)  # the length
            return prefix + buffer.read()
        return prefix + buffer.getvalue()

    def decode(self, message: bytes, start: int, reader: "AvroCodec | None") -> Any:
        """The value in a message from `start` on, as the reader's schema sees it."""
        buffer = BytesIO(message)
        buffer.seek(start)
        if self.is_bytes:
            buffer = _sized(message[start:])
        try:
            return fastavro.schemaless_reader(buffer, self.parsed, None if reader is None else reader.parsed)
        except FASTAVRO_ERRORS as error:
            name = self.record_name or "of the writer"
            raise SerializationFailed(f"The message cannot be read with the schema {name}: {str(error) or type(error).__name__}") from error


def avro_codec(text: str, referenced: Iterable[str] = ()) -> AvroCodec:
    """The schema of a text; `referenced` are the texts of those it refers to, the needed ones first."""
    texts = list(referenced)
    names: dict[str, Any] = {}
    try:
        schema = parse_schema(text, references=texts).root
        for one in texts:
            fastavro.parse_schema(json.loads(one), named_schemas=names)
        parsed = fastavro.parse_schema(json.loads(text), named_schemas=names)
    except (*FASTAVRO_ERRORS, SchemaError, RecursionError) as error:
        raise SerializationFailed(f"The schema cannot be used: {error}") from error
    name = schema.fullname if isinstance(schema, Record | Enum | Fixed) else None
    return AvroCodec(parsed, name, schema.kind == "bytes")


def _sized(content: bytes) -> BytesIO:
    """Bytes with their length before them."""
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, "bytes", content)
    return _rewound(buffer)


def _rewound(buffer: BytesIO) -> BytesIO:
    buffer.seek(0)
    return buffer
