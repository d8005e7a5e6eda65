"""The Avro schema that all messages of a table are read with, made of all versions that its subject has.

It is the latest version, with what tables need besides:
- fields that earlier versions had and the latest has not (nor as an alias) stay: their old messages have them, and so has the table;
- a field without a default may be missing in messages of another version, and is null there;
- int is read as long and float as double, because a table cannot widen a column later.

So a table only ever gains columns, whatever versions come. Fields of records inside of others follow the latest version alone.
"""

from collections.abc import Sequence

from millstream.avro.parser import ParsedSchema
from millstream.avro.schema import NO_DEFAULT, Array, Field, Map, Primitive, Record, Schema, Union, logical_type
from millstream.avro.text import resolved_text

_WIDER = {"int": "long", "float": "double"}


def reading_schema(versions: Sequence[Schema]) -> str:
    """The text of the schema to read with; `versions` from the oldest to the latest."""
    return resolved_text(ParsedSchema(_Widening().widened(_with_former_fields(versions))))


def _with_former_fields(versions: Sequence[Schema]) -> Schema:
    latest = versions[-1]
    if not isinstance(latest, Record):
        return latest
    fields = {field.name: field for field in latest.fields}
    known = {name for field in latest.fields for name in (field.name, *field.aliases)}
    for older in reversed(versions[:-1]):
        for field in older.fields if isinstance(older, Record) else ():
            if field.name not in known:
                known.update((field.name, *field.aliases))
                fields[field.name] = Field(field.name, field.schema, aliases=field.aliases)
    return Record(latest.fullname, latest.aliases, latest.doc, tuple(fields.values()))


class _Widening:
    """Copies a schema; a record that occurs again, or contains itself, stays one record."""

    def __init__(self) -> None:
        self._records: dict[Record, Record] = {}

    def widened(self, schema: Schema) -> Schema:
        if isinstance(schema, Record):
            return self._record(schema)
        if isinstance(schema, Array):
            return Array(self.widened(schema.items), schema.properties)
        if isinstance(schema, Map):
            return Map(self.widened(schema.values), schema.properties)
        if isinstance(schema, Union):
            return _union([self.widened(branch) for branch in schema.branches])
        if isinstance(schema, Primitive) and schema.kind in _WIDER and logical_type(schema) != "date":
            return Primitive(_WIDER[schema.kind])
        return schema

    def _record(self, schema: Record) -> Record:
        if schema not in self._records:
            copy = self._records[schema] = Record(schema.fullname, schema.aliases)
            copy.fields = tuple(self._field(field) for field in schema.fields)
        return self._records[schema]

    def _field(self, field: Field) -> Field:
        schema = self.widened(field.schema)
        if field.default is not NO_DEFAULT:
            return Field(field.name, schema, default=field.default, aliases=field.aliases)
        return Field(field.name, _union([Primitive("null"), schema]), default=None, aliases=field.aliases)


def _union(branches: Sequence[Schema]) -> Union:
    """A union of these, without unions inside and with no primitive type twice: null first, if it came first."""
    flat: list[Schema] = []
    for branch in branches:
        for one in branch.branches if isinstance(branch, Union) else (branch,):
            if not any(_is_twice(one, other) for other in flat):
                flat.append(one)
    return Union(tuple(flat))


def _is_twice(one: Schema, other: Schema) -> bool:
    return isinstance(one, Primitive | Array | Map) and one.kind == other.kind
