"""How the messages of a topic become rows of tables: one table, or one for each record type that the topic has.

An Avro topic whose subject is `<topic>-value` has one table. One without, but with subjects `<topic>-<record>` (the names of Confluent's
TopicRecordNameStrategy), has a table for each of them, `<topic>.<record>`, and the schema of a message decides where it goes.

The registry is asked before every micro-batch, after its end is known: whoever wrote a message had registered its schema before, so no
column of a message is missed. Versions are fetched only when the latest one is new.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from millstream.arrow.avro.column_types import BadSchema, arrow_type, parse_avro
from millstream.arrow.columns import Format
from millstream.avro.schema import Record, Schema
from millstream.errors import UsageError
from millstream.lake.avro_columns import reading_schema
from millstream.lake.columns import file_schema
from millstream.registry.client import RegisteredSchema, RegistryClient
from millstream.registry.errors import RegistryError
from millstream.spark.jobs.load_settings import LoadSettings

_NOT_FOUND: Final = 404
_KEY_TYPES: Final = {"binary": pa.binary(), "string": pa.string()}
_VALUE_TYPES: Final = {"binary": pa.binary(), "string": pa.string()}


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table of a topic: its name, how values are read, and what they are read as."""

    topic: str
    table: str
    format: Format
    value_type: pa.DataType
    key_type: pa.DataType
    avro: tuple[str, ...] = ()
    record: str | None = None
    """The record type whose messages go here; None: all messages of the topic do."""

    @property
    def files(self) -> pa.Schema:
        """The columns of its files."""
        return file_schema(self.value_type, key=self.key_type)


class TablePlanner:
    """Makes the plans of a load, and remembers what the registry said."""

    def __init__(self, settings: LoadSettings, json_type: str | None = None) -> None:
        """`json_type` is the type of JSON values, as `type_text` wrote it: only Spark can read its DDL."""
        self._settings = settings
        self._json_type = None if json_type is None else read_type(json_type)
        self._registry = None if settings.registry is None else RegistryClient(settings.registry)
        self._known: dict[str, tuple[int | None, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._registry is not None:
            self._registry.close()

    def plans(self) -> tuple[TablePlan, ...]:
        """The tables of all topics, as of now."""
        plans = tuple(plan for topic in self._settings.topics for plan in self._of_topic(topic))
        tables = [plan.table for plan in plans]
        twice = sorted({table for table in tables if tables.count(table) > 1})
        if twice:
            raise UsageError(f"two topics would have the table {twice[0]}: load them to different places.")
        return plans

    def _of_topic(self, topic: str) -> list[TablePlan]:
        key = _KEY_TYPES[self._settings.key_format]
        format_ = self._settings.value_format
        if format_ == "json":
            assert self._json_type is not None, "the driver has parsed the columns"
            return [TablePlan(topic, topic, format_, self._json_type, key)]
        if format_ != "avro":
            return [TablePlan(topic, topic, format_, _VALUE_TYPES[format_], key)]
        try:
            subjects = self._subjects(topic)
            return [self._avro_plan(topic, latest, record=record) for latest, record in subjects]
        except BadSchema as error:
            raise UsageError(f"the schemas of {topic} cannot become a table: {error}") from None

    def _subjects(self, topic: str) -> list[tuple[RegisteredSchema, str | None]]:
        """The latest schema of each record type."""
        assert self._registry is not None, "the settings were checked"
        try:
            return [(self._registry.latest(f"{topic}-value"), None)]
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
        prefix = f"{topic}-"
        found = [one for one in self._registry.latest_versions(prefix=prefix) if one.subject is not None and one.schema_type == "AVRO"]
        types = [(one, (one.subject or "").removeprefix(prefix)) for one in found]
        named = [(one, record) for one, record in types if record not in {"key", "value"} and record == self._record_name(one)]
        if not named:
            raise UsageError(
                f"the registry has no schema for {topic}: neither a subject {topic}-value nor subjects {topic}-<name of a record>. Write a "
                "message with an Avro serialiser first, or load with another value-format."
            )
        return list(named)

    def _record_name(self, registered: RegisteredSchema) -> str | None:
        schema = self._parsed(registered)
        return schema.fullname if isinstance(schema, Record) else None

    def _avro_plan(self, topic: str, latest: RegisteredSchema, *, record: str | None) -> TablePlan:
        subject = latest.subject or f"{topic}-value"
        known = self._known.get(subject)
        if known is None or known[0] != latest.version:
            known = self._known[subject] = latest.version, reading_schema(self._versions(subject, latest))
        value = arrow_type(parse_avro([known[1]]))
        table = topic if record is None else f"{topic}.{record}"
        return TablePlan(topic, table, "avro", value, _KEY_TYPES[self._settings.key_format], (known[1],), record)

    def _versions(self, subject: str, latest: RegisteredSchema) -> Sequence[Schema]:
        """The schemas of a subject, the latest last; those that cannot be read any more are left out."""
        assert self._registry is not None
        schemas: list[Schema] = []
        for number in self._registry.versions(subject):
            if latest.version is not None and number < latest.version:
                try:
                    schemas.append(self._parsed(self._registry.version(subject, number)))
                except BadSchema:
                    continue
        return [*schemas, self._parsed(latest)]

    def _parsed(self, registered: RegisteredSchema) -> Schema:
        assert self._registry is not None
        if registered.schema_type != "AVRO":
            raise BadSchema(f"the subject {registered.subject} has a schema of type {registered.schema_type}, not AVRO")
        references = [reference.schema for reference in self._registry.resolved_references(registered)]
        return parse_avro([*references, registered.schema])


def type_text(kind: pa.DataType) -> str:
    """A type of Arrow as a text."""
    return base64.b64encode(pa.schema([("value", kind)]).serialize()).decode()


def read_type(text: str) -> pa.DataType:
    """What `type_text` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).field(0).type
