"""What a message looks like, read off kio's generated classes once per class.

kio describes every version of every message as a dataclass whose fields carry Kafka's type in their metadata. That description is all that
Millstream takes from kio at run time. Its own reader is native and fast, but believes the counts it is told (five bytes in a flexible array
make it allocate 256 GiB and abort the process) and stops at tagged fields it does not know; its writer wants objects where a handler has
plain values. So `message_reader` and `message_writer` do that work, driven by the `Schema` made here; tests hold both equal to kio.

A field is known by Kafka's name; kio dropped the unit of durations and points in time, so it calls `throttle_time` what Kafka calls
`throttle_time_ms`. This module imports nothing of kio: it only looks at the classes it is given (`wire.messages` is the door to kio).
"""

import struct
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import Field as DataclassField
from functools import cache
from types import EllipsisType, NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from millstream.wire.primitives import UUID_SIZE

REQUIRED: Final = object()
"""Default of a field that has none."""

ENTITY: Final = "entity"
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

_TIMES: Final = frozenset(("timedelta_i32", "timedelta_i64", "datetime_i64"))
_SMALLEST_LEGACY: Final = {"string": 2, "bytes": 4, "records": 4}
_OMISSIBLE: Final = {"error_code": 0, "throttle_time": 0}
"""Fields that kio requires, but that say nothing when nothing went wrong."""
_IMPLICIT: Final = {"string": "", "bytes": b"", "bool": False, "uuid": None}
"""Kafka's defaults of tagged fields without one of their own; numbers are 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a message or of a structure inside it."""

    name: str
    kafka_name: str
    kind: str
    """Kafka's type of the value, or of the elements of an array; `ENTITY` for a structure."""
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any
    nested: "Schema | None"


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A message, or a structure inside it, in one version."""

    entity: Any
    name: str
    is_flexible: bool
    fields: tuple[Field, ...]

    def smallest_size(self) -> int:
        """Fewest bytes that one can take: what a count is checked against before anything is allocated."""
        untagged = sum(self._smallest_of(field) for field in self.fields if field.tag is None)
        return untagged + 1 if self.is_flexible else untagged

    def smallest_element(self, field: Field) -> int:
        """Fewest bytes that an element of the field's array can take."""
        if field.nested is not None:
            return field.nested.smallest_size()
        if field.kind == "uuid":
            return UUID_SIZE
        if field.kind in NUMBER_FORMATS:
            return struct.calcsize(NUMBER_FORMATS[field.kind])
        return 1 if self.is_flexible else _SMALLEST_LEGACY[field.kind]

    def _smallest_of(self, field: Field) -> int:
        if field.is_array:
            return 1 if self.is_flexible else 4
        if field.nested is not None and field.is_nullable:
            return 1
        return self.smallest_element(field)


@cache
def describe(entity: Any) -> Schema:
    """The schema of one of kio's classes."""
    return Schema(
        entity=entity,
        name=f"{entity.__name__} version {entity.__version__}",
        is_flexible=entity.__flexible__,
        fields=tuple(_describe_field(field) for field in fields(entity)),
    )


def _describe_field(field: DataclassField[Any]) -> Field:
    value_type, is_nullable = _without_none(field.type)
    is_array = get_origin(value_type) is tuple
    if is_array:
        element_type, ellipsis = get_args(value_type)
        assert isinstance(ellipsis, EllipsisType)
        value_type, _ = _without_none(element_type)
    nested = describe(value_type) if isinstance(value_type, type) and is_dataclass(value_type) else None
    kind = ENTITY if nested is not None else field.metadata["kafka_type"]
    tag = field.metadata.get("tag")
    return Field(
        name=field.name,
        kafka_name=f"{field.name}_ms" if kind in _TIMES else field.name,
        kind=kind,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=tag,
        default=_default(field, tag=tag),
        nested=nested,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (UnionType, Union):
        return annotation, False
    (value_type,) = (argument for argument in get_args(annotation) if argument is not NoneType)
    return value_type, True


def _default(field: DataclassField[Any], *, tag: int | None) -> Any:
    if field.default is not MISSING:
        return field.default
    if tag is not None:
        return _implicit_default(field)
    return _OMISSIBLE.get(field.name, REQUIRED)


def _implicit_default(field: DataclassField[Any]) -> Any:
    """Kafka's default of a tagged field that declares none: nothing, zero, or a structure of such."""
    if field.default is not MISSING:
        return field.default
    if is_dataclass(field.type) and isinstance(field.type, type):
        return field.type(**{nested.name: _implicit_default(nested) for nested in fields(field.type)})
    return _IMPLICIT.get(field.metadata["kafka_type"], 0)
