"""AlterConfigsResponse (key 33), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AlterConfigsResourceResponse(NamedTuple):
    """A part of it."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


ALTER_CONFIGS_RESOURCE_RESPONSE: Final = Layout(
    AlterConfigsResourceResponse,
    (
        Field("error_code", "error_code", 0, 2, default=0),
        Field("error_message", "string", 0, 2, nullable_from=0),
        Field("resource_type", "int8", 0, 2),
        Field("resource_name", "string", 0, 2),
    ),
)


class AlterConfigsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


LAYOUT: Final = Layout(
    AlterConfigsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 2, default=0),
        Field("responses", STRUCTURE, 0, 2, is_array=True, nested=ALTER_CONFIGS_RESOURCE_RESPONSE),
    ),
)
