"""The Avro schema that all messages of a table are read with, made of all versions that its subject has.

It is the latest version, with what tables need besides, in the record of the message and in those inside of it:
- fields that earlier versions had and the latest has not (nor as an alias) stay: their old messages have them, and so has the table;
- a field without a default may be missing in messages of another version, and is null there;
- every field may be null, because it may have been in another version;
- int is read as long and float as double, because a table cannot widen a column later;
- an enum has the symbols of all versions.

So a table only ever gains columns, whatever versions come. Records inside of others are the same if they have the same full name; the
record of the message may change its name.
"""

from collections.abc import Iterator, Sequence

from millstream.avro.parser import ParsedSchema
from millstream.avro.schema import NO_DEFAULT, Array, Enum, Field, Fixed, Map, Named, Primitive, Record, Schema, Union, logical_type
from millstream.avro.text import resolved_text

_WIDER = {"int": "long", "float": "double"}


def reading_schema(versions: Sequence[Schema]) -> str:
    """The text of the schema to read with; `versions` from the oldest to the latest."""
    return resolved_text(ParsedSchema(_Merging(versions).copied(versions[-1])))


class _Merging:
    """Copies a schema with what other versions had. A named type stays one, wherever it occurs and if it contains itself."""

    def __init__(self, versions: Sequence[Schema]) -> None:
        self._definitions: dict[str, list[Named]] = {}
        """By full name, the latest first."""
        self._copies: dict[str, Named] = {}
        latest = versions[-1]
        for version in reversed(versions):
            for named in _named_types(version, set()):
                self._definitions.setdefault(named.fullname, []).append(named)
            if isinstance(latest, Record) and isinstance(version, Record) and version.fullname != latest.fullname:
                self._definitions[latest.fullname].append(version)

    def copied(self, schema: Schema) -> Schema:
        """The schema as the table reads it."""
        if isinstance(schema, Record | Enum | Fixed):
            return self._named(schema.fullname)
        if isinstance(schema, Array):
            return Array(self.copied(schema.items), schema.properties)
        if isinstance(schema, Map):
            return Map(self.copied(schema.values), schema.properties)
        if isinstance(schema, Union):
            return _union([self.copied(branch) for branch in schema.branches])
        if schema.kind in _WIDER and logical_type(schema) != "date":
            return Primitive(_WIDER[schema.kind])
        return schema

    def _named(self, fullname: str) -> Named:
        known = self._copies.get(fullname)
        if known is not None:
            return known
        latest, *older = self._definitions[fullname]
        if isinstance(latest, Record):
            return self._record(latest, [one for one in older if isinstance(one, Record)])
        if isinstance(latest, Enum):
            symbols = dict.fromkeys([*latest.symbols, *(symbol for one in older if isinstance(one, Enum) for symbol in one.symbols)])
            latest = Enum(fullname, tuple(symbols), latest.aliases, default=latest.default)
        self._copies[fullname] = latest
        return latest

    def _record(self, latest: Record, older: Sequence[Record]) -> Record:
        copy = self._copies[latest.fullname] = Record(latest.fullname, latest.aliases)
        fields = [self._field(field) for field in latest.fields]
        known = {name for field in latest.fields for name in (field.name, *field.aliases)}
        for record in older:
            for field in record.fields:
                if field.name not in known:
                    known.update((field.name, *field.aliases))
                    fields.append(self._field(Field(field.name, field.schema, aliases=field.aliases)))
        copy.fields = tuple(fields)
        return copy

    def _field(self, field: Field) -> Field:
        schema = self.copied(field.schema)
        if field.default is not NO_DEFAULT:
            # The type of the default comes first in a union.
            return Field(field.name, _union([schema, Primitive("null")]), default=field.default, aliases=field.aliases)
        return Field(field.name, _union([Primitive("null"), schema]), default=None, aliases=field.aliases)


def _named_types(schema: Schema, seen: set[str]) -> Iterator[Named]:
    """The named types that occur in a schema, each once."""
    if isinstance(schema, Record | Enum | Fixed):
        if schema.fullname in seen:
            return
        seen.add(schema.fullname)
        yield schema
    parts: Sequence[Schema] = ()
    if isinstance(schema, Record):
        parts = [field.schema for field in schema.fields]
    elif isinstance(schema, Array):
        parts = [schema.items]
    elif isinstance(schema, Map):
        parts = [schema.values]
    elif isinstance(schema, Union):
        parts = schema.branches
    for part in parts:
        yield from _named_types(part, seen)


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
