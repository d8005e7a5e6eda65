"""What a message looks like in one version, read off kio's generated classes, which are made from Kafka's own descriptions.

kio describes every version of every message as a dataclass whose fields carry Kafka's type in their metadata. It dropped the unit of
durations and points in time, so it calls `throttle_time` what Kafka calls `throttle_time_ms`.
"""

from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import Field as DataclassField
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from types import EllipsisType, NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from millstream.wire.api import ApiKey
from millstream.wire.schema import STRUCTURE

REQUIRED: Final = object()
"""Default of a field that has none."""
TIMES: Final = frozenset(("timedelta_i32", "timedelta_i64", "datetime_i64"))
NO_TIME: Final = -1
"""How Kafka writes a point in time that is not known."""

_OMISSIBLE: Final = {"error_code": 0, "throttle_time": timedelta()}
"""Fields that kio requires, but that say nothing when nothing went wrong."""
_IMPLICIT: Final = {"string": "", "bytes": b"", "bool": False, "uuid": None}
"""Kafka's defaults of tagged fields without one of their own; numbers are 0."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class KioField:
    """One field of a message or of a structure inside it."""

    name: str
    kind: str
    """Kafka's type of the value, or of the elements of an array; `STRUCTURE` for a structure."""
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any
    nested: "KioSchema | None"

    @property
    def kafka_name(self) -> str:
        """What Kafka calls it."""
        return f"{self.name}_ms" if self.kind in TIMES else self.name


@dataclass(frozen=True, slots=True, eq=False)
class KioSchema:
    """A message, or a structure inside it, in one version."""

    entity: Any
    is_flexible: bool
    fields: tuple[KioField, ...]


def entity_class(api_key: int, version: int, kind: str) -> Any:
    """kio's class for one version of a request or response."""
    name = ApiKey(api_key).name.lower()
    class_name = "".join(word.capitalize() for word in name.split("_")) + kind.capitalize()
    return getattr(import_module(f"kio.schema.{name}.v{version}.{kind}"), class_name)


@cache
def describe(entity: Any) -> KioSchema:
    """The schema of one of kio's classes."""
    return KioSchema(entity, entity.__flexible__, tuple(_describe_field(field) for field in fields(entity)))


def plain(field: KioField, value: Any) -> Any:
    """The plain form of what one of kio's objects has in a field that is not a structure: numbers, texts, bytes, tuples of them."""
    if field.is_array and value is not None:
        return tuple(_plain_element(field, element) for element in value)
    return _plain_element(field, value)


def _plain_element(field: KioField, value: Any) -> Any:
    match value:
        case None:
            return NO_TIME if field.kind == "datetime_i64" else None
        case timedelta():
            return value // _MILLISECOND
        case datetime():
            return (value - _EPOCH) // _MILLISECOND
        case _:
            return int(value) if field.kind == "error_code" else value


def _describe_field(field: DataclassField[Any]) -> KioField:
    value_type, is_nullable = _without_none(field.type)
    is_array = get_origin(value_type) is tuple
    if is_array:
        element_type, ellipsis = get_args(value_type)
        assert isinstance(ellipsis, EllipsisType)
        value_type, _ = _without_none(element_type)
    nested = describe(value_type) if isinstance(value_type, type) and is_dataclass(value_type) else None
    tag = field.metadata.get("tag")
    return KioField(
        name=field.name,
        kind=STRUCTURE if nested is not None else field.metadata["kafka_type"],
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
