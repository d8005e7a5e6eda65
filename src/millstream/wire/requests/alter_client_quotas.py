"""AlterClientQuotasRequest (key 49), versions 0 to 1. Written by `codegen.messages`: do not edit."""

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


class OpData(NamedTuple):
    """A part of it."""

    key: str = ""
    value: float = 0.0
    remove: bool = False


OP_DATA: Final = Layout(
    OpData,
    (
        Field("key", "string", 0, 1),
        Field("value", "float64", 0, 1),
        Field("remove", "bool", 0, 1),
    ),
)


class EntryData(NamedTuple):
    """A part of it."""

    entity: tuple[EntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


ENTRY_DATA: Final = Layout(
    EntryData,
    (
        Field("entity", STRUCTURE, 0, 1, is_array=True, nested=ENTITY_DATA),
        Field("ops", STRUCTURE, 0, 1, is_array=True, nested=OP_DATA),
    ),
)


class AlterClientQuotasRequest(NamedTuple):
    """The message."""

    entries: tuple[EntryData, ...] = ()
    validate_only: bool = False


LAYOUT: Final = Layout(
    AlterClientQuotasRequest,
    (
        Field("entries", STRUCTURE, 0, 1, is_array=True, nested=ENTRY_DATA),
        Field("validate_only", "bool", 0, 1),
    ),
)
