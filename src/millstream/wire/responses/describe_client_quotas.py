"""DescribeClientQuotasResponse (key 48), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class EntityData(NamedTuple):
    """A part of it."""

    entity_type: str = ""
    entity_name: str | None = ""


ENTITY_DATA: Final = Layout(
    EntityData,
    (
        Field("entity_type", "string", 0, 1),
        Field("entity_name", "string", 0, 1, nullable_from=0),
    ),
)


class ValueData(NamedTuple):
    """A part of it."""

    key: str = ""
    value: float = 0.0


VALUE_DATA: Final = Layout(
    ValueData,
    (
        Field("key", "string", 0, 1),
        Field("value", "float64", 0, 1),
    ),
)


class EntryData(NamedTuple):
    """A part of it."""

    entity: tuple[EntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


ENTRY_DATA: Final = Layout(
    EntryData,
    (
        Field("entity", STRUCTURE, 0, 1, is_array=True, nested=ENTITY_DATA),
        Field("values", STRUCTURE, 0, 1, is_array=True, nested=VALUE_DATA),
    ),
)


class DescribeClientQuotasResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: tuple[EntryData, ...] | None = ()


LAYOUT: Final = Layout(
    DescribeClientQuotasResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, nullable_from=0),
        Field("entries", STRUCTURE, 0, 1, is_array=True, nullable_from=0, nested=ENTRY_DATA),
    ),
)
