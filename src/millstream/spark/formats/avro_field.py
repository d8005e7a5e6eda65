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
from pyspark.sql.types import DataType, StructType

from millstream.errors import UsageError
from millstream.registry.addresses import Addresses
from millstream.registry.client import RegisteredSchema, RegistryClient
from millstream.registry.errors import RegistryError
from millstream.spark.formats.avro_encoding import Schema, encode_message
from millstream.spark.formats.binary_columns import BinaryColumn, null_flags
from millstream.spark.formats.row_bytes import fill, join, only, to_column
from millstream.spark.formats.writer_schema import derive_schema, read_schema
from millstream.spark.sink.write_plan import WriteField, WritePlan

_NOT_FOUND: Final = 404
_CACHED_S: Final = 300.0


class SchemaUnavailable(UsageError):
    """The registry has no schema to write by, or does not take ours."""


class _Question(NamedTuple):
    """What decides by which schema a field is written."""

    registry: Addresses
    subject: str
    given: str | None
    data_type: DataType
    record_name: str
    registers: bool
    uses_latest: bool


class AvroField:
    """Keys or values of one topic as Avro messages of one schema."""

    def __init__(self, field: WriteField, schema: Schema, *, schema_id: int, place: str) -> None:
        self._field = field
        self._schema = schema
        self._header = b"\x00" + schema_id.to_bytes(4, "big")
        self._place = place

    def encode(self, batch: pa.RecordBatch) -> BinaryColumn:
        """The messages of a batch of rows."""
        columns = [batch.column(position) for position in self._field.columns]
        column = columns[0]
        if self._field.is_record:
            column = pa.StructArray.from_arrays(columns, names=[batch.schema.names[position] for position in self._field.columns])
        is_null = null_flags(column)
        message = encode_message(self._schema, column, place=self._place)
        return to_column(join([only(fill(self._header, len(column)), ~is_null), message]), is_null)


def avro_field(plan: WritePlan, field: WriteField, *, name: str, topic: str) -> AvroField:
    """The encoder of a topic's keys or values; asks the registry."""
    assert plan.registry is not None, "the options were checked"
    subject = field.subject or f"{topic}-{name}"
    question = _Question(
        plan.registry, subject, field.schema, _data_type(plan, field), f"{topic}_{name}", plan.registers_schemas, plan.uses_latest_version
    )
    schema, schema_id = _answer(question)
    return AvroField(field, schema, schema_id=schema_id, place=name)


def _data_type(plan: WritePlan, field: WriteField) -> DataType:
    if field.is_record:
        return StructType([plan.schema[position] for position in field.columns])
    return plan.schema[field.columns[0]].dataType


_answers: dict[_Question, tuple[float, Schema, int]] = {}


def _answer(question: _Question) -> tuple[Schema, int]:
    asked_at, schema, schema_id = _answers.get(question, (0.0, "null", 0))
    if not asked_at or monotonic() - asked_at > _CACHED_S:
        with RegistryClient(question.registry) as registry:
            found = _find(registry, question)
            referenced = [other.schema for other in registry.resolved_references(found)]
        schema, schema_id = read_schema(found.schema, referenced=referenced, where=f"subject {question.subject}"), found.schema_id
        _answers[question] = monotonic(), schema, schema_id
    return schema, schema_id


def _find(registry: RegistryClient, question: _Question) -> RegisteredSchema:
    subject = question.subject
    if question.given is None and question.uses_latest:
        try:
            return registry.latest(subject)
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
    text = question.given or derive_schema(question.data_type, question.record_name)
    try:
        return registry.register(subject, text) if question.registers else registry.look_up(subject, text)
    except RegistryError as error:
        if error.status >= 500:
            raise
        hint = "auto.register.schemas is false, so it has to be registered before" if not question.registers else "the registry refused it"
        raise SchemaUnavailable(f"rows cannot be written by the schema {text} of subject {subject!r}, {hint}: {error}") from error
