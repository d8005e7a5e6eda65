"""DescribeConfigsResponse (key 32), versions 1 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribeConfigsSynonym(NamedTuple):
    """A part of it."""

    name: str = ""
    value: str | None = ""
    source: int = 0


DESCRIBE_CONFIGS_SYNONYM: Final = Layout(
    DescribeConfigsSynonym,
    (
        Field("name", "string", 1, 4),
        Field("value", "string", 1, 4, nullable_from=1),
        Field("source", "int8", 1, 4),
    ),
)


class DescribeConfigsResourceResult(NamedTuple):
    """A part of it."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = ""


DESCRIBE_CONFIGS_RESOURCE_RESULT: Final = Layout(
    DescribeConfigsResourceResult,
    (
        Field("name", "string", 1, 4),
        Field("value", "string", 1, 4, nullable_from=1),
        Field("read_only", "bool", 1, 4),
        Field("config_source", "int8", 1, 4, default=-1),
        Field("is_sensitive", "bool", 1, 4),
        Field("synonyms", STRUCTURE, 1, 4, is_array=True, nested=DESCRIBE_CONFIGS_SYNONYM),
        Field("config_type", "int8", 3, 4, default=0),
        Field("documentation", "string", 3, 4, nullable_from=3),
    ),
)


class DescribeConfigsResult(NamedTuple):
    """A part of it."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


DESCRIBE_CONFIGS_RESULT: Final = Layout(
    DescribeConfigsResult,
    (
        Field("error_code", "error_code", 1, 4, default=0),
        Field("error_message", "string", 1, 4, nullable_from=1),
        Field("resource_type", "int8", 1, 4),
        Field("resource_name", "string", 1, 4),
        Field("configs", STRUCTURE, 1, 4, is_array=True, nested=DESCRIBE_CONFIGS_RESOURCE_RESULT),
    ),
)


class DescribeConfigsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...] = ()


LAYOUT: Final = Layout(
    DescribeConfigsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 4, default=0),
        Field("results", STRUCTURE, 1, 4, is_array=True, nested=DESCRIBE_CONFIGS_RESULT),
    ),
)
