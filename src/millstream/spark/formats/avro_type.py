"""Avro schemas as values: parsed, with every name resolved.

fastavro checks the text and resolves names and namespaces; what it returns is brought into one small shape. A named type is one object
wherever it is used, so a recursive schema is a cycle of objects.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from millstream.errors import MillstreamError

PRIMITIVES: Final = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
NO_DEFAULT: Final = object()


class BadSchema(MillstreamError):
    """A text that is not an Avro schema, or one that cannot become columns; the message says why."""


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record; `default` is JSON, or `NO_DEFAULT`."""

    name: str
    type: "AvroType"
    default: Any
    aliases: tuple[str, ...]


@dataclass(eq=False, slots=True)
class AvroType:
    """One type. `kind` is Avro's word for it, or "union"; what does not concern the kind stays empty."""

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    items: "AvroType | None" = None
    """Of an array its items, of a map its values."""
    branches: "list[AvroType]" = field(default_factory=list)

    @property
    def short_name(self) -> str:
        """The name without its namespace: what resolution compares."""
        return self.name.rpartition(".")[2]

    @property
    def inner(self) -> "AvroType":
        """The type of items or values."""
        assert self.items is not None
        return self.items

    def __str__(self) -> str:
        if self.kind == "union":
            return "[" + ", ".join(map(str, self.branches)) + "]"
        return f"{self.kind} {self.name}" if self.name else self.logical or self.kind


def parse_avro(schemas: Sequence[str]) -> AvroType:
    """The type that the last schema describes; the schemas before it are those it refers to, each after those it needs itself."""
    named: dict[str, Any] = {}
    try:
        for text in schemas:
            schema = fastavro.parse_schema(_read_json(text), named_schemas=named)
        return _Reader(named).read(schema)
    except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as error:
        raise BadSchema(f"it is not an Avro schema: {type(error).__name__} {error}") from None
    except RecursionError:
        raise BadSchema("it is nested too deeply") from None


def parsed_type(schema: Any) -> AvroType:
    """The type of a schema that fastavro has parsed and written out, every named type where it is used."""
    return _Reader({}).read(schema)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # The bare name of a primitive type is how some tools write such a schema.
        return text.strip()


class _Reader:
    """Makes `AvroType`s of what fastavro returned."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._types: dict[str, AvroType] = {}

    def read(self, schema: Any) -> AvroType:
        if isinstance(schema, list):
            return AvroType("union", branches=[self.read(branch) for branch in schema])
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return AvroType(schema)
            return self._types.get(schema) or self.read(self._named[schema])
        kind = schema["type"]
        if isinstance(kind, list | dict):
            return self.read(kind)
        if kind in {"record", "error"}:
            return self._read_record(schema)
        if kind in {"enum", "fixed"}:
            return self._read_named(schema)
        if kind in {"array", "map"}:
            return AvroType(kind, items=self.read(schema["items" if kind == "array" else "values"]))
        if kind not in PRIMITIVES:
            return self.read(kind)
        return AvroType(kind, **_logical(schema))

    def _read_record(self, schema: Mapping[str, Any]) -> AvroType:
        name = schema["name"]
        if name in self._types:
            return self._types[name]
        record = self._types[name] = AvroType("record", name=name, aliases=_short_names(schema))
        for entry in schema["fields"]:
            aliases = tuple(entry.get("aliases", ()))
            record.fields.append(AvroField(entry["name"], self.read(entry["type"]), entry.get("default", NO_DEFAULT), aliases))
        return record

    def _read_named(self, schema: Mapping[str, Any]) -> AvroType:
        name, size = schema["name"], schema.get("size", 0)
        if not isinstance(size, int) or size < 0:
            raise BadSchema(f"the size of fixed {name} is {size!r}, which is no number of bytes")
        if name not in self._types:
            self._types[name] = AvroType(
                schema["type"],
                name=name,
                aliases=_short_names(schema),
                symbols=tuple(schema.get("symbols", ())),
                default_symbol=schema.get("default"),
                size=size,
                **_logical(schema),
            )
        return self._types[name]


def _short_names(schema: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(alias.rpartition(".")[2] for alias in schema.get("aliases", ()))


def _logical(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The logical type; one that is unknown or does not go with its type is as good as none, says Avro's specification."""
    logical = schema.get("logicalType")
    if logical == "decimal" and schema["type"] in {"bytes", "fixed"}:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision > 0:
            return {"logical": logical, "precision": precision, "scale": scale}
    if (logical, schema["type"]) in _LOGICAL:
        return {"logical": logical}
    return {}


_LOGICAL: Final = {
    ("date", "int"),
    ("timestamp-millis", "long"),
    ("timestamp-micros", "long"),
    ("timestamp-nanos", "long"),
    ("local-timestamp-millis", "long"),
    ("local-timestamp-micros", "long"),
    ("local-timestamp-nanos", "long"),
}
"""Those that give a column another type than the one they are written as; times of day, UUIDs and durations do not."""
