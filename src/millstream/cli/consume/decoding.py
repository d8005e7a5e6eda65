"""What keys and values are, and how they are read: by the schema registry, as JSON, or not at all.

    auto     what was written with a schema is decoded, if a registry is named; everything else stays as it is
    avro     every message was written with an Avro schema of the registry; one that was not is an error
    json     every message is JSON, by itself or behind the id of a JSON schema
    binary   bytes, as they are

A message names its schema in its first bytes or in a header (`registry.wire_format`); each schema is asked for once.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from millstream.cli.record_output import Decoded, Headers, ShownRecord
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from millstream.registry.client import RegistryClient

MOST_UNKNOWN: Final = 10_000
_FIRST_BYTES: Final = (0, 1)
INSTALL: Final = "pip install '.[registry]' in a checkout of Millstream"


class MessageFormat(StrEnum):
    """What keys or values are."""

    AUTO = "auto"
    AVRO = "avro"
    JSON = "json"
    BINARY = "binary"


class _Context:
    """Where a message comes from, as the deserialisers ask for it."""

    def __init__(self, headers: Headers) -> None:
        self.topic = None
        self.headers = headers


class Decode(Protocol):
    """Reads a key or a value."""

    def __call__(self, content: bytes, headers: Headers) -> bytes:
        """The content, decoded if it can be."""


Decoding = Callable[[ShownRecord], ShownRecord]


@contextmanager
def open_decoding(key_format: MessageFormat, value_format: MessageFormat, *, registry: str | None) -> Iterator[Decoding | None]:
    """What turns a record into a decoded one, with connections to the registry; None if nothing is to be decoded."""
    client = _registry_client(registry, is_needed=MessageFormat.AVRO in (key_format, value_format))
    try:
        key, value = _decode(key_format, client, is_key=True), _decode(value_format, client, is_key=False)
        yield None if key is None and value is None else _decoding(key, value)
    finally:
        if client is not None:
            client.close()


def _decoding(key: Decode | None, value: Decode | None) -> Decoding:
    from millstream.registry.errors import SerializationFailed

    def decoded(record: ShownRecord) -> ShownRecord:
        try:
            return record._replace(
                key=key(record.key, record.headers) if key is not None and record.key is not None else record.key,
                value=value(record.value, record.headers) if value is not None and record.value is not None else record.value,
            )
        except (CommandFailed, SerializationFailed) as error:
            advice = "--value-format auto (--key-format auto) shows what cannot be decoded as it is"
            raise CommandFailed(f"{record.topic}-{record.partition}, offset {record.offset}: {error} {advice}.") from error

    return decoded


def _registry_client(registry: str | None, *, is_needed: bool) -> "RegistryClient | None":
    if registry is None:
        if is_needed:
            raise UsageError("Avro is read with a schema registry: name it with --registry URL, $MILLSTREAM_REGISTRY or in a profile.")
        return None
    from importlib.util import find_spec

    if find_spec("fastavro") is None:
        if is_needed:
            raise UsageError(f"To read Avro fastavro is needed: {INSTALL}.")
        return None
    from millstream.registry.client import RegistryClient

    return RegistryClient(registry)


def _decode(chosen: MessageFormat, client: "RegistryClient | None", *, is_key: bool) -> Decode | None:
    if chosen is MessageFormat.BINARY or (chosen is MessageFormat.AUTO and client is None):
        return None
    if client is None:
        return lambda content, _: _json(content)
    by_schema = SchemaDecoding(client, is_key=is_key)
    if chosen is MessageFormat.AVRO:
        return by_schema.avro
    return by_schema.json if chosen is MessageFormat.JSON else by_schema.auto


class SchemaDecoding:
    """Reads messages by the schema that they name."""

    def __init__(self, client: "RegistryClient", *, is_key: bool) -> None:
        from millstream.registry.avro_deserializer import AvroDeserializer

        self._deserialize = AvroDeserializer(client, is_key=is_key)
        self._is_key = is_key
        self._unknown: set[int | str | None] = set()
        """Ids and GUIDs that the registry does not know, so that they are not asked for with every message."""

    def avro(self, content: bytes, headers: Headers) -> bytes:
        """An Avro message."""
        return Decoded.of(self._deserialize(content, _Context(headers)))

    def json(self, content: bytes, headers: Headers) -> bytes:
        """JSON, behind a schema's id or not."""
        return _json(content[self._start(content, headers) :] if content[:1] in (b"\x00", b"\x01") else content)

    def auto(self, content: bytes, headers: Headers) -> bytes:
        """Whatever it names a schema for; anything else as it is."""
        if not content or (content[0] not in _FIRST_BYTES and not headers):
            return content
        from millstream.registry.errors import SerializationFailed
        from millstream.registry.wire_format import read_mark

        try:
            mark = read_mark(content, headers, is_key=self._is_key)
            named = mark.guid or mark.schema_id
            if named in self._unknown:
                return content
            kind = self._kind(content, headers, named)
            if kind == "AVRO":
                return self.avro(content, headers)
            return self.json(content, headers) if kind == "JSON" else content
        except (SerializationFailed, CommandFailed):
            return content

    def _kind(self, content: bytes, headers: Headers, named: int | str | None) -> str | None:
        from millstream.registry.errors import SerializationFailed

        try:
            return self._deserialize.writer_schema(content, _Context(headers)).schema_type
        except SerializationFailed:
            if len(self._unknown) < MOST_UNKNOWN:
                self._unknown.add(named)
            return None

    def _start(self, content: bytes, headers: Headers) -> int:
        from millstream.registry.wire_format import read_mark

        return read_mark(content, headers, is_key=self._is_key).payload_start


def _json(content: bytes) -> Decoded:
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"this is no JSON ({error}).") from None
    return Decoded.with_text(content, document)
