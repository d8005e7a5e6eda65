"""`key.format` and `value.format` = avro: by which schema, and the wire format around each message.

    0 | int32 id of the schema | the message

The schema is, in this order: the one given by `value.schema`; the latest version of the subject, if it has one and `use.latest.version` is
not false; the one derived from the columns. Given and derived schemas are registered under the subject, where the registry judges whether
they are compatible, unless `auto.register.schemas` is false: then they have to be there already. The subject is `<topic>-value` or
`<topic>-key`, or what `value.subject` says.

A worker process asks the registry again after five minutes, not for every task.
"""

from time import monotonic
from typing import Final, NamedTuple

import pyarrow as pa

from millstream.arrow.avro.encoding import encode_message
from millstream.arrow.avro.writer_schema import derive_schema, read_schema
from millstream.arrow.binary_columns import BinaryColumn, null_flags
from millstream.arrow.columns import FieldColumns
from millstream.arrow.field_encoding import Registration, column_of
from millstream.arrow.row_bytes import fill, join, only, to_column
from millstream.avro.schema import Schema
from millstream.errors import UsageError
from millstream.registry.client import RegisteredSchema, RegistryClient
from millstream.registry.errors import RegistryError

_NOT_FOUND: Final = 404
_CACHED_S: Final = 300.0


class SchemaUnavailable(UsageError):
    """The registry has no schema to write by, or does not take ours."""


class _Question(NamedTuple):
    """What decides by which schema a field is written."""

    registration: Registration
    subject: str
    given: str | None
    record_name: str


class _Answer(NamedTuple):
    """A schema, its id, and when the registry was asked."""

    schema: Schema
    schema_id: int
    asked_at: float


class AvroField:
    """Keys or values of one topic as Avro messages of one schema."""

    def __init__(self, field: FieldColumns, schema: Schema, *, schema_id: int, place: str) -> None:
        self._field = field
        self._schema = schema
        self._header = b"\x00" + schema_id.to_bytes(4, "big")
        self._place = place

    def encode(self, batch: pa.RecordBatch) -> BinaryColumn:
        """The messages of a batch of rows."""
        column = column_of(self._field, batch)
        is_null = null_flags(column)
        message = encode_message(self._schema, column, place=self._place)
        return to_column(join([only(fill(self._header, len(column)), ~is_null), message]), is_null)


def avro_field(field: FieldColumns, *, name: str, topic: str, registration: Registration) -> AvroField:
    """The encoder of a topic's keys or values; asks the registry."""
    question = _Question(registration, field.subject or f"{topic}-{name}", field.schema, f"{topic}_{name}")
    answer = _answers.get(question)
    if answer is None or monotonic() - answer.asked_at > _CACHED_S:
        answer = _answers[question] = _ask(question)
    return AvroField(field, answer.schema, schema_id=answer.schema_id, place=name)


_answers: dict[_Question, _Answer] = {}


def _ask(question: _Question) -> _Answer:
    with RegistryClient(question.registration.registry) as registry:
        found = _find(registry, question)
        referenced = [other.schema for other in registry.resolved_references(found)]
    schema = read_schema(found.schema, referenced=referenced, where=f"subject {question.subject}")
    return _Answer(schema, found.schema_id, monotonic())


def _find(registry: RegistryClient, question: _Question) -> RegisteredSchema:
    subject, registers = question.subject, question.registration.registers
    if question.given is None and question.registration.uses_latest:
        try:
            return registry.latest(subject)
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
    text = question.given or derive_schema(question.registration.column_type, question.record_name)
    try:
        return registry.register(subject, text) if registers else registry.look_up(subject, text)
    except RegistryError as error:
        if error.status >= 500:
            raise
        hint = "auto.register.schemas is false, so it has to be registered before" if not registers else "the registry refused it"
        raise SchemaUnavailable(f"rows cannot be written by the schema {text} of subject {subject!r}, {hint}: {error}") from error
