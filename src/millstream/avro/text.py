"""From a schema to text: the form in which it is registered, the specification's canonical form, and fingerprints.

`registered_text` is what two spellings of one schema have in common: attributes in a fixed order, no white space, names as short as their
namespace allows, types of other schemas by name. It is Java's `Schema.toString`, which Confluent's registry stores and from which it makes
its GUIDs, so both give a schema the same GUID. `is_normalized` also sorts the properties that the specification does not define.
`resolved_text` writes the types of other schemas out.

The Parsing Canonical Form leaves out everything that does not matter to who reads the bytes; its fingerprint is the specification's
CRC-64-AVRO or SHA-256.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from millstream.avro.parser import ParsedSchema
from millstream.avro.schema import (
    NO_DEFAULT,
    Array,
    Enum,
    Field,
    Fixed,
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

EMPTY_CRC: Final = 0xC15D213AA4D7A795


def registered_text(parsed: ParsedSchema, *, is_normalized: bool = False) -> str:
    """The schema in the form in which it is stored."""
    return _text(_Writer(set(parsed.foreign), is_normalized=is_normalized).document(parsed.root, ""))


def resolved_text(parsed: ParsedSchema) -> str:
    """The same with the types of other schemas written out."""
    return _text(_Writer(set(), is_normalized=False).document(parsed.root, ""))


def canonical_form(parsed: ParsedSchema) -> str:
    """The specification's Parsing Canonical Form."""
    return _text(_canonical(parsed.root, set()))


def rabin_fingerprint(parsed: ParsedSchema) -> int:
    """CRC-64-AVRO of the canonical form."""
    fingerprint = EMPTY_CRC
    for byte in canonical_form(parsed).encode():
        fingerprint = (fingerprint >> 8) ^ _CRC_TABLE[(fingerprint ^ byte) & 0xFF]
    return fingerprint


def sha256_fingerprint(parsed: ParsedSchema) -> bytes:
    """SHA-256 of the canonical form."""
    return hashlib.sha256(canonical_form(parsed).encode()).digest()


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


def _canonical(schema: Schema, known: set[str]) -> Json:
    if isinstance(schema, Union):
        return [_canonical(branch, known) for branch in schema.branches]
    if isinstance(schema, Primitive):
        return schema.kind
    if isinstance(schema, Array):
        return {"type": "array", "items": _canonical(schema.items, known)}
    if isinstance(schema, Map):
        return {"type": "map", "values": _canonical(schema.values, known)}
    if schema.fullname in known:
        return schema.fullname
    known.add(schema.fullname)
    if isinstance(schema, Fixed):
        return {"name": schema.fullname, "type": "fixed", "size": schema.size}
    if isinstance(schema, Enum):
        return {"name": schema.fullname, "type": "enum", "symbols": list(schema.symbols)}
    fields = [{"name": field.name, "type": _canonical(field.schema, known)} for field in schema.fields]
    return {"name": schema.fullname, "type": "error" if schema.is_error else "record", "fields": fields}


def _text(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _crc_table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ (EMPTY_CRC if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC_TABLE: Final = _crc_table()
