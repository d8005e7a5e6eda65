"""What a message looks like: its layout over all versions, and the schema of one version that readers and writers are made from.

`wire.requests` and `wire.responses` hold, generated from Kafka's own descriptions, a module per API: the named tuples that messages are
read into, and their `LAYOUT`. A field has one type in all versions that have it; only whether it may be null changes, once. In versions
without the field a message has its default, as in the classes of Kafka's own clients.
"""

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from millstream.wire.primitives import UUID_SIZE

REQUIRED: Final = object()
"""Default of a field that a writer has to be given."""
NEVER: Final = 0x7FFF
"""First version in which a field may be null that may not."""

STRUCTURE: Final = "structure"
NUMBER_FORMATS: Final = {
    "bool": ">?",
    "int8": ">b",
    "uint8": ">B",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "uint64": ">Q",
    "float64": ">d",
    "error_code": ">h",
    "timedelta_i32": ">i",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
}
"""How `struct` spells Kafka's numbers, durations (milliseconds) and points in time (milliseconds since 1970)."""

_SMALLEST_LEGACY: Final = {"string": 2, "bytes": 4, "records": 4}


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a message or of a structure inside it, in the versions `first` to `last`."""

    name: str
    kind: str
    """Kafka's type of the value, or of the elements of an array; `STRUCTURE` for a structure."""
    first: int
    last: int
    default: Any = REQUIRED
    is_array: bool = False
    nullable_from: int = NEVER
    tag: int | None = None
    nested: "Layout | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A message, or a structure inside it, in all versions; `plain` is the named tuple it is read into."""

    plain: Any
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BoundField:
    """A field in one version."""

    name: str
    kind: str
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any
    nested: "Schema | None"


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A message, or a structure inside it, in one version."""

    plain: Any
    version: int
    is_flexible: bool
    fields: tuple[BoundField, ...]

    @property
    def name(self) -> str:
        """What error messages call it."""
        return f"{self.plain.__name__} version {self.version}"

    def smallest_size(self) -> int:
        """Fewest bytes that one can take: what a count is checked against before anything is allocated."""
        untagged = sum(self._smallest_of(field) for field in self.fields if field.tag is None)
        return untagged + 1 if self.is_flexible else untagged

    def smallest_element(self, field: BoundField) -> int:
        """Fewest bytes that an element of the field's array can take."""
        if field.nested is not None:
            return field.nested.smallest_size()
        if field.kind == "uuid":
            return UUID_SIZE
        if field.kind in NUMBER_FORMATS:
            return struct.calcsize(NUMBER_FORMATS[field.kind])
        return 1 if self.is_flexible else _SMALLEST_LEGACY[field.kind]

    def _smallest_of(self, field: BoundField) -> int:
        if field.is_array:
            return 1 if self.is_flexible else 4
        if field.nested is not None and field.is_nullable:
            return 1
        return self.smallest_element(field)


@cache
def schema_at(layout: Layout, version: int, *, is_flexible: bool) -> Schema:
    """The schema of one version."""
    present = (field for field in layout.fields if field.first <= version <= field.last)
    return Schema(layout.plain, version, is_flexible, tuple(_bound(field, version, is_flexible=is_flexible) for field in present))


def _bound(field: Field, version: int, *, is_flexible: bool) -> BoundField:
    return BoundField(
        name=field.name,
        kind=field.kind,
        is_array=field.is_array,
        is_nullable=version >= field.nullable_from,
        tag=field.tag,
        default=field.default,
        nested=None if field.nested is None else schema_at(field.nested, version, is_flexible=is_flexible),
    )
