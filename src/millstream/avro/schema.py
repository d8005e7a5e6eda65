"""An Avro schema as values: one class per kind of type, compared by identity, because records may contain themselves.

    Primitive                       null boolean int long float double bytes string
    Array  Map  Union               items, values, branches
    Record ─ Field    Enum  Fixed   named: a full name (`namespace.name`), aliases as full names, a doc

`properties` holds what the specification does not define, and `logicalType` with its parameters: they are kept as they came, and
`logical_type` says what of it counts. Nothing else is checked here; `parser` makes only schemas that are right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, log10
from typing import Any, Final, NamedTuple

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

LOGICAL_TYPES: Final = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
    "uuid": "string",
}
"""With the type that each is written as; decimals have two."""

Json = Any
"""A JSON value."""


class _NoDefault:
    """There is no default; null is one."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


@dataclass(eq=False, slots=True)
class Primitive:
    """A type without parts."""

    kind: str
    properties: Mapping[str, Json] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Array:
    """A list of items of one type."""

    items: "Schema"
    properties: Mapping[str, Json] = field(default_factory=dict)
    kind: str = "array"


@dataclass(eq=False, slots=True)
class Map:
    """Values of one type by names."""

    values: "Schema"
    properties: Mapping[str, Json] = field(default_factory=dict)
    kind: str = "map"


@dataclass(eq=False, slots=True)
class Union:
    """One of several types."""

    branches: tuple["Schema", ...]
    kind: str = "union"
    properties: Mapping[str, Json] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record."""

    name: str
    schema: "Schema"
    doc: str | None = None
    default: Json = NO_DEFAULT
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Json] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Record:
    """Fields in order. `fields` is filled after the record is known by name, so that they may refer to it."""

    fullname: str
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    fields: tuple[Field, ...] = ()
    is_error: bool = False
    properties: Mapping[str, Json] = field(default_factory=dict)
    kind: str = "record"


@dataclass(eq=False, slots=True)
class Enum:
    """One of several symbols; `default` is what a reader takes a symbol for that it does not know."""

    fullname: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    default: str | None = None
    properties: Mapping[str, Json] = field(default_factory=dict)
    kind: str = "enum"


@dataclass(eq=False, slots=True)
class Fixed:
    """So many bytes."""

    fullname: str
    size: int
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Mapping[str, Json] = field(default_factory=dict)
    kind: str = "fixed"


Named = Record | Enum | Fixed
Schema = Primitive | Array | Map | Union | Record | Enum | Fixed


def namespace_of(fullname: str) -> str:
    """What stands before the last dot; empty if there is none."""
    return fullname.rpartition(".")[0]


def short_name(fullname: str) -> str:
    """What stands after the last dot."""
    return fullname.rpartition(".")[2]


def type_name(schema: Schema) -> str:
    """How to call a type in a sentence: its name if it has one, its kind otherwise."""
    return schema.fullname if isinstance(schema, Record | Enum | Fixed) else schema.kind


def described(schema: Schema) -> str:
    """The same with its kind: `fixed digest`, `[null, int]`, `timestamp-millis`."""
    if isinstance(schema, Union):
        return "[" + ", ".join(map(described, schema.branches)) + "]"
    if isinstance(schema, Record | Enum | Fixed):
        return f"{schema.kind} {schema.fullname}"
    return logical_type(schema) or schema.kind


class Decimal(NamedTuple):
    """Digits in all, and behind the point."""

    precision: int
    scale: int


def logical_type(schema: Schema) -> str | None:
    """The logical type; one that is unknown or does not go with its type is as good as none, says the specification."""
    name = schema.properties.get("logicalType")
    if name == "decimal":
        return name if decimal_of(schema) is not None else None
    return name if isinstance(name, str) and LOGICAL_TYPES.get(name) == schema.kind else None


def decimal_of(schema: Schema) -> Decimal | None:
    """The digits of a decimal; None for any other type, and for one whose digits make no sense or do not fit its bytes."""
    properties = schema.properties
    if properties.get("logicalType") != "decimal" or not (isinstance(schema, Fixed) or schema.kind == "bytes"):
        return None
    precision, scale = properties.get("precision"), properties.get("scale", 0)
    # So many digits always fit the bytes, which is Java's rule; and a bool is an int to Python.
    most = log10(2) * (8 * schema.size - 1) if isinstance(schema, Fixed) else inf
    if type(precision) is int and type(scale) is int and 0 <= scale <= precision > 0 and precision <= most:
        return Decimal(precision, scale)
    return None
