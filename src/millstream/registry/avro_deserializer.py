"""From messages to values: `AvroDeserializer(registry)` is called with a message and, if its schema may be in a header, its context.

    deserialize = AvroDeserializer(RegistryClient("http://127.0.0.1:8081"), reader_schema)
    value = deserialize(message.value())

The writer's schema is looked up by the id or GUID that the message begins with (or that its header has), once. With a reader's schema the
value is what that schema sees: fields it does not know are left out, those the writer did not know have their defaults. Threads may share a
deserialiser.
"""

from collections.abc import Iterable
from typing import Any

from millstream.registry.avro_codec import AvroCodec, avro_codec
from millstream.registry.avro_serializer import MessageContext
from millstream.registry.client import RegisteredSchema, RegistryClient
from millstream.registry.errors import SchemaNotFound, SerializationFailed
from millstream.registry.model.records import Reference
from millstream.registry.wire_format import SchemaMark, read_mark

MAX_CODECS = 1_000


class AvroDeserializer:
    """Reads messages of any schema, as itself or as the reader's."""

    def __init__(
        self, registry: RegistryClient, reader_schema: str | None = None, *, references: Iterable[Reference] = (), is_key: bool = False
    ) -> None:
        self._registry = registry
        self._is_key = is_key
        self._codecs: dict[int | str, AvroCodec] = {}
        self._reader = None
        if reader_schema is not None:
            self._reader = self._codec_of(RegisteredSchema(reader_schema, -1, references=tuple(references)))

    def __call__(self, message: bytes | None, context: "str | MessageContext | None" = None) -> Any:
        """The value of a message; None for none (a tombstone)."""
        if message is None:
            return None
        headers = None if context is None or isinstance(context, str) else context.headers
        mark = read_mark(message, headers, is_key=self._is_key)
        codec = self._codecs.get(mark.schema_id if mark.guid is None else mark.guid) or self._find(mark)  # type: ignore[arg-type]
        return codec.decode(message, mark.payload_start, self._reader)

    def writer_schema(self, message: bytes, context: "str | MessageContext | None" = None) -> RegisteredSchema:
        """The schema that wrote a message."""
        headers = None if context is None or isinstance(context, str) else context.headers
        return self._look_up(read_mark(message, headers, is_key=self._is_key))

    def _find(self, mark: SchemaMark) -> AvroCodec:
        codec = self._codec_of(self._look_up(mark))
        if len(self._codecs) >= MAX_CODECS:
            self._codecs.pop(next(iter(self._codecs)), None)
        key = mark.schema_id if mark.guid is None else mark.guid
        assert key is not None
        self._codecs[key] = codec
        return codec

    def _look_up(self, mark: SchemaMark) -> RegisteredSchema:
        try:
            if mark.guid is not None:
                return self._registry.schema_by_guid(mark.guid)
            assert mark.schema_id is not None
            return self._registry.schema_by_id(mark.schema_id)
        except SchemaNotFound as error:
            named = f"GUID {mark.guid}" if mark.guid is not None else f"id {mark.schema_id}"
            raise SerializationFailed(f"The message was written with the schema of {named}, which this registry does not know.") from error

    def _codec_of(self, schema: RegisteredSchema) -> AvroCodec:
        if schema.schema_type != "AVRO":
            raise SerializationFailed(f"The message was written with a schema of type {schema.schema_type}, and not AVRO.")
        return avro_codec(schema.schema, [one.schema for one in self._registry.resolved_references(schema)])
