"""From a schema to text: the form in which it is registered.

`registered_text` is what two spellings of one schema have in common: attributes in a fixed order, no white space, names as short as their
namespace allows, types of other schemas by name. It is Java's `Schema.toString`, which Confluent's registry stores and from which it makes
its GUIDs, so both give a schema the same GUID. `is_normalized` also sorts the properties that the specification does not define.
`resolved_text` writes the types of other schemas out.
"""

import json
from collections.abc import Mapping
from typing import Any

from millstream.avro.parser import ParsedSchema
from millstream.avro.schema import (
    NO_DEFAULT,
    Array,
    Enum,
    Field,
    Json,
    Map,
    Named,
    Primitive,
    Record,
    Schema,
    Union,
    namespace_of,
    short_name,
)


def registered_text(parsed: ParsedSchema, *, is_normalized: bool = False) -> str:
    """The schema in the form in which it is stored."""
    return _text(_Writer(set(parsed.foreign), is_normalized=is_normalized).document(parsed.root, ""))


def resolved_text(parsed: ParsedSchema) -> str:
    """The same with the types of other schemas written out."""
    return _text(_Writer(set(), is_normalized=False).document(parsed.root, ""))


class _Writer:
    """Makes JSON documents of types; a type whose name is `known` is written as its name."""

    def __init__(self, known: set[str], *, is_normalized: bool) -> None:
        self._known = known
        self._is_normalized = is_normalized

    def document(self, schema: Schema, namespace: str) -> Json:
        if isinstance(schema, Union):
            return [self.document(branch, namespace) for branch in schema.branches]
        if isinstance(schema, Primitive):
            return {"type": schema.kind, **self._own(schema.properties)} if schema.properties else schema.kind
        if isinstance(schema, Array):
            return {"type": "array", "items": self.document(schema.items, namespace), **self._own(schema.properties)}
        if isinstance(schema, Map):
            return {"type": "map", "values": self.document(schema.values, namespace), **self._own(schema.properties)}
        if schema.fullname in self._known:
            return _relative(schema.fullname, namespace)
        self._known.add(schema.fullname)
        return self._named(schema, namespace)

    def _named(self, schema: Named, namespace: str) -> dict[str, Json]:
        space = namespace_of(schema.fullname)
        document: dict[str, Json] = {"type": schema.kind, "name": short_name(schema.fullname)}
        if space != namespace:
            document["namespace"] = space
        if schema.doc is not None:
            document["doc"] = schema.doc
        if isinstance(schema, Record):
            if schema.is_error:
                document["type"] = "error"
            document["fields"] = [self._field(field, space) for field in schema.fields]
        elif isinstance(schema, Enum):
            document["symbols"] = list(schema.symbols)
            if schema.default is not None:
                document["default"] = schema.default
        else:
            document["size"] = schema.size
        document |= self._own(schema.properties)
        if schema.aliases:
            document["aliases"] = [_relative(alias, space) for alias in schema.aliases]
        return document

    def _field(self, field: Field, namespace: str) -> dict[str, Json]:
        document: dict[str, Json] = {"name": field.name, "type": self.document(field.schema, namespace)}
        if field.doc is not None:
            document["doc"] = field.doc
        if field.default is not NO_DEFAULT:
            document["default"] = field.default
        if field.order != "ascending":
            document["order"] = field.order
        if field.aliases:
            document["aliases"] = list(field.aliases)
        return document | self._own(field.properties)

    def _own(self, properties: Mapping[str, Json]) -> dict[str, Json]:
        return _sorted(properties) if self._is_normalized else dict(properties)


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _relative(fullname: str, namespace: str) -> str:
    """A name as it can be written within a namespace."""
    return short_name(fullname) if namespace_of(fullname) == namespace else fullname


def _text(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
