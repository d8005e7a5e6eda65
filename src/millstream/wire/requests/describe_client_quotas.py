"""DescribeClientQuotasRequest (key 48), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ComponentData(NamedTuple):
    """A part of it."""

    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""


COMPONENT_DATA: Final = Layout(
    ComponentData,
    (
        Field("entity_type", "string", 0, 1),
        Field("match_type", "int8", 0, 1),
        Field("match", "string", 0, 1, nullable_from=0),
    ),
)


class DescribeClientQuotasRequest(NamedTuple):
    """The message."""

    components: tuple[ComponentData, ...] = ()
    strict: bool = False


LAYOUT: Final = Layout(
    DescribeClientQuotasRequest,
    (
        Field("components", STRUCTURE, 0, 1, is_array=True, nested=COMPONENT_DATA),
        Field("strict", "bool", 0, 1),
    ),
)
