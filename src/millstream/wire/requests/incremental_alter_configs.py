"""IncrementalAlterConfigsRequest (key 44), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AlterableConfig(NamedTuple):
    """A part of it."""

    name: str = ""
    config_operation: int = 0
    value: str | None = ""


ALTERABLE_CONFIG: Final = Layout(
    AlterableConfig,
    (
        Field("name", "string", 0, 1),
        Field("config_operation", "int8", 0, 1),
        Field("value", "string", 0, 1, nullable_from=0),
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
        Field("resource_type", "int8", 0, 1),
        Field("resource_name", "string", 0, 1),
        Field("configs", STRUCTURE, 0, 1, is_array=True, nested=ALTERABLE_CONFIG),
    ),
)


class IncrementalAlterConfigsRequest(NamedTuple):
    """The message."""

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


LAYOUT: Final = Layout(
    IncrementalAlterConfigsRequest,
    (
        Field("resources", STRUCTURE, 0, 1, is_array=True, nested=ALTER_CONFIGS_RESOURCE),
        Field("validate_only", "bool", 0, 1),
    ),
)
