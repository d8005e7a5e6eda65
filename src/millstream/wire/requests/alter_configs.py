"""AlterConfigsRequest (key 33), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AlterableConfig(NamedTuple):
    """A part of it."""

    name: str = ""
    value: str | None = ""


ALTERABLE_CONFIG: Final = Layout(
    AlterableConfig,
    (
        Field("name", "string", 0, 2),
        Field("value", "string", 0, 2, nullable_from=0),
    ),
)


class AlterConfigsResource(NamedTuple):
    """A part of it."""

    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


ALTER_CONFIGS_RESOURCE: Final = Layout(
    AlterConfigsResource,
    (
        Field("resource_type", "int8", 0, 2),
        Field("resource_name", "string", 0, 2),
        Field("configs", STRUCTURE, 0, 2, is_array=True, nested=ALTERABLE_CONFIG),
    ),
)


class AlterConfigsRequest(NamedTuple):
    """The message."""

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


LAYOUT: Final = Layout(
    AlterConfigsRequest,
    (
        Field("resources", STRUCTURE, 0, 2, is_array=True, nested=ALTER_CONFIGS_RESOURCE),
        Field("validate_only", "bool", 0, 2),
    ),
)
