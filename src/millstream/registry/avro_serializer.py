"""From values to messages: `AvroSerializer(registry, schema)` is called with a value and the topic that it goes to.

    serialize = AvroSerializer(RegistryClient("http://127.0.0.1:8081"), schema_text)
    producer.produce("clicks", value=serialize({"page": "/"}, "clicks"))

The first message to a topic registers the schema under the subject that `subject_name` gives (or only looks it up, with
`auto_register=False`; or takes the subject's latest version, with `use_latest=True`); after that no request is made. Instead of a topic,
anything with `topic` and `headers` can be given, such as the context that confluent-kafka's SerializingProducer calls its serialisers with.
With `in_header=True` the GUID goes into the headers instead of the id before the bytes. Threads may share a serialiser.

The subject is named in one of the three ways that Confluent's clients know:

    topic_name           clicks-value            one schema per topic, which evolves
    record_name          shop.Click              one per record type, in whatever topic
    topic_record_name    clicks-shop.Click       one per record type and topic
"""

import threading
from collections.abc import Callable, Iterable, MutableSequence
from typing import Any, Protocol

from millstream.errors import UsageError
from millstream.registry.avro_codec import AvroCodec, avro_codec
from millstream.registry.client import RegisteredSchema, RegistryClient
from millstream.registry.errors import SchemaNotFound, SerializationFailed, SubjectNotFound
from millstream.registry.model.records import Reference
from millstream.registry.wire_format import KEY_HEADER, VALUE_HEADER, guid_header, id_prefix

SubjectName = Callable[[str | None, str | None, bool], str]
"""From the topic, the full name of the record (None if the schema is none) and whether it is the key."""


def topic_name(topic: str | None, record: str | None, is_key: bool) -> str:
    """`TOPIC-key` or `TOPIC-value`."""
    return f"{_needed(topic, 'topic')}-{'key' if is_key else 'value'}"


def record_name(topic: str | None, record: str | None, is_key: bool) -> str:
    """The full name of the record."""
    return _needed(record, "record")


def topic_record_name(topic: str | None, record: str | None, is_key: bool) -> str:
    """`TOPIC-RECORD`."""
    return f"{_needed(topic, 'topic')}-{_needed(record, 'record')}"


class MessageContext(Protocol):
    """Where a message goes to or comes from."""

    @property
    def topic(self) -> str | None: ...

    @property
    def headers(self) -> Any: ...


class _Target:
    """What is known about a subject: how to write, and how to say with which schema."""

    def __init__(self, codec: AvroCodec, schema: RegisteredSchema) -> None:
        self.codec = codec
        self.prefix = id_prefix(schema.schema_id)
        self.header = None if schema.guid is None else guid_header(schema.guid)


class AvroSerializer:
    """Writes values with one schema."""

    def __init__(
        self,
        registry: RegistryClient,
        schema: str | None = None,
        *,
        references: Iterable[Reference] = (),
        is_key: bool = False,
        subject_name: SubjectName = topic_name,
        auto_register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        in_header: bool = False,
        strict: bool = False,
    ) -> None:
        if (schema is None) != use_latest:
            raise UsageError("A serialiser needs a schema, or use_latest=True and none.")
        self._registry = registry
        self._schema = schema
        self._references = tuple(references)
        self._is_key = is_key
        self._subject_name = subject_name
        self._auto_register = auto_register
        self._normalize = normalize
        self._in_header = in_header
        self._strict = strict
        self._codec = None if schema is None else self._codec_of(RegisteredSchema(schema, -1, references=self._references))
        self._targets: dict[str | None, _Target] = {}
        self._lock = threading.Lock()

    def __call__(self, value: Any, context: "str | MessageContext | None" = None) -> bytes | None:
        """The message for a value; nothing (a tombstone) for None."""
        if value is None:
            return None
        topic = context if context is None or isinstance(context, str) else context.topic
        target = self._targets.get(topic) or self._find(topic)
        if not self._in_header:
            return target.codec.encode(value, target.prefix, strict=self._strict)
        message = target.codec.encode(value, b"", strict=self._strict)
        self._put_header(target, context)
        return message

    def _find(self, topic: str | None) -> _Target:
        with self._lock:
            if topic not in self._targets:
                subject = self._subject_name(topic, None if self._codec is None else self._codec.record_name, self._is_key)
                registered = self._registered(subject)
                codec = self._codec if self._codec is not None else self._codec_of(registered)
                self._targets[topic] = _Target(codec, registered)
            return self._targets[topic]

    def _registered(self, subject: str) -> RegisteredSchema:
        if self._schema is None:
            return self._registry.latest(subject)
        if self._auto_register:
            return self._registry.register(subject, self._schema, references=self._references, normalize=self._normalize)
        try:
            return self._registry.look_up(subject, self._schema, references=self._references, normalize=self._normalize)
        except (SubjectNotFound, SchemaNotFound) as error:
            raise SerializationFailed(
                f"The schema is not registered under {subject!r} ({error}) and is not to be registered here."
            ) from error

    def _codec_of(self, schema: RegisteredSchema) -> AvroCodec:
        return avro_codec(schema.schema, [one.schema for one in self._registry.resolved_references(schema)])

    def _put_header(self, target: _Target, context: "str | MessageContext | None") -> None:
        headers = None if context is None or isinstance(context, str) else context.headers
        name = KEY_HEADER if self._is_key else VALUE_HEADER
        if target.header is None:
            raise SerializationFailed("The registry gave no GUID, so the schema cannot be named in a header.")
        if isinstance(headers, dict):
            headers[name] = target.header
        elif isinstance(headers, MutableSequence):
            headers.append((name, target.header))
        else:
            raise SerializationFailed("in_header=True needs a context whose headers are a list or a dict to add to.")


def _needed(name: str | None, what: str) -> str:
    if name is None:
        reason = "serialise with the name of the topic" if what == "topic" else "its schema is no record; use topic_name"
        raise UsageError(f"The subject needs the name of the {what}: {reason}.")
    return name
