"""How the messages of a topic become rows of tables: one table, or one for each record type that the topic has.

An Avro topic whose subject is `<topic>-value` has one table. One without, but with subjects `<topic>-<record>` (the names of Confluent's
TopicRecordNameStrategy), has a table for each of them, `<topic>.<record>`, and the schema of a message decides where it goes. Avro keys
have the subject `<topic>-key`.

The registry is asked before every micro-batch, after its end is known: whoever wrote a message had registered its schema before, so no
column of a message is missed. Versions are fetched only when the latest one is new.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from millstream.arrow.avro.column_types import BadSchema, arrow_type, parse_avro
from millstream.arrow.columns import Field, Format
from millstream.avro.schema import Record, Schema
from millstream.errors import UsageError
from millstream.lake.avro_columns import reading_schema
from millstream.lake.columns import file_schema, widened
from millstream.lake.ddl import parse_columns
from millstream.lake.event_time import check_event_time
from millstream.registry.client import RegisteredSchema, RegistryClient
from millstream.registry.errors import RegistryError
from millstream.spark.jobs.load.settings import LoadSettings

_NOT_FOUND: Final = 404
_PLAIN_TYPES: Final = {"binary": pa.binary(), "string": pa.string()}


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How the keys or the values of a table are read, and what they are read as."""

    format: Format
    kind: pa.DataType
    avro: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table of a topic: its name, and how messages become its rows."""

    topic: str
    table: str
    value: FieldPlan
    key: FieldPlan
    with_headers: bool = False
    event_time: str | None = None
    record: str | None = None
    """The record type whose messages go here; None: all messages of the topic do."""

    @property
    def files(self) -> pa.Schema:
        """The columns of its files."""
        return file_schema(self.value.kind, key=self.key.kind, with_headers=self.with_headers, with_event_time=self.event_time is not None)


class TablePlanner:
    """Makes the plans of a load, and remembers what the registry said."""

    def __init__(self, settings: LoadSettings) -> None:
        self._settings = settings
        self._plain = {
            "value": _plain_field("value", settings.value_format, settings.value_schema),
            "key": _plain_field("key", settings.key_format, settings.key_schema),
        }
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
        try:
            key = self._plain["key"] or self._avro_field(self._key_schema(topic), f"{topic}-key")
            value = self._plain["value"]
            if value is not None:
                return [self._plan(topic, topic, value, key)]
            return [
                self._plan(topic, topic if record is None else f"{topic}.{record}", self._avro_field(latest, f"{topic}-value"), key, record)
                for latest, record in self._subjects(topic)
            ]
        except BadSchema as error:
            raise UsageError(f"the schemas of {topic} cannot become a table: {error}") from None

    def _plan(self, topic: str, table: str, value: FieldPlan, key: FieldPlan, record: str | None = None) -> TablePlan:
        plan = TablePlan(topic, table, value, key, self._settings.headers, self._settings.event_time, record)
        # With sql the field is one of the query's.
        if plan.event_time is not None and self._settings.sql is None:
            check_event_time(plan.files, plan.event_time, where=f"the table {table}")
        return plan

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

    def _key_schema(self, topic: str) -> RegisteredSchema:
        assert self._registry is not None, "the settings were checked"
        try:
            return self._registry.latest(f"{topic}-key")
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
        raise UsageError(
            f"the registry has no schema for the keys of {topic}: there is no subject {topic}-key. Write a message with an Avro "
            "serialiser for keys first, or load with another key-format."
        )

    def _record_name(self, registered: RegisteredSchema) -> str | None:
        schema = self._parsed(registered)
        return schema.fullname if isinstance(schema, Record) else None

    def _avro_field(self, latest: RegisteredSchema, default_subject: str) -> FieldPlan:
        subject = latest.subject or default_subject
        known = self._known.get(subject)
        if known is None or known[0] != latest.version:
            known = self._known[subject] = latest.version, reading_schema(self._versions(subject, latest))
        return FieldPlan("avro", arrow_type(parse_avro([known[1]])), (known[1],))

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


def _plain_field(name: Field, form: Format, schema: str | None) -> FieldPlan | None:
    """Keys or values whose type is known without a registry; None for Avro."""
    if form == "avro":
        return None
    if form != "json":
        return FieldPlan(form, _PLAIN_TYPES[form])
    assert schema is not None, "the settings were checked"
    try:
        return FieldPlan(form, widened(parse_columns(schema)))
    except UsageError as error:
        raise UsageError(f"{name}-schema: {error}") from None
