"""ListConfigResourcesResponse (key 74), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ConfigResource(NamedTuple):
    """A part of it."""

    resource_name: str = ""
    resource_type: int = 16


CONFIG_RESOURCE: Final = Layout(
    ConfigResource,
    (
        Field("resource_name", "string", 0, 1),
        Field("resource_type", "int8", 1, 1, default=16),
    ),
)


class ListConfigResourcesResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: tuple[ConfigResource, ...] = ()


LAYOUT: Final = Layout(
    ListConfigResourcesResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("config_resources", STRUCTURE, 0, 1, is_array=True, nested=CONFIG_RESOURCE),
    ),
)
