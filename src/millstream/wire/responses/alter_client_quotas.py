"""AlterClientQuotasResponse (key 49), versions 0 to 1. Written by `codegen.messages`: do not edit."""

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


class EntryData(NamedTuple):
    """A part of it."""

    error_code: int = 0
    error_message: str | None = ""
    entity: tuple[EntityData, ...] = ()


ENTRY_DATA: Final = Layout(
    EntryData,
    (
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, nullable_from=0),
        Field("entity", STRUCTURE, 0, 1, is_array=True, nested=ENTITY_DATA),
    ),
)


class AlterClientQuotasResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    entries: tuple[EntryData, ...] = ()


LAYOUT: Final = Layout(
    AlterClientQuotasResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("entries", STRUCTURE, 0, 1, is_array=True, nested=ENTRY_DATA),
    ),
)
