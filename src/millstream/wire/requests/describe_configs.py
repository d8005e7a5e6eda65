"""DescribeConfigsRequest (key 32), versions 1 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribeConfigsResource(NamedTuple):
    """A part of it."""

    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = ()


DESCRIBE_CONFIGS_RESOURCE: Final = Layout(
    DescribeConfigsResource,
    (
        Field("resource_type", "int8", 1, 4),
        Field("resource_name", "string", 1, 4),
        Field("configuration_keys", "string", 1, 4, default=(), is_array=True, nullable_from=1),
    ),
)


class DescribeConfigsRequest(NamedTuple):
    """The message."""

    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: bool = False


LAYOUT: Final = Layout(
    DescribeConfigsRequest,
    (
        Field("resources", STRUCTURE, 1, 4, is_array=True, nested=DESCRIBE_CONFIGS_RESOURCE),
        Field("include_synonyms", "bool", 1, 4, default=False),
        Field("include_documentation", "bool", 3, 4, default=False),
    ),
)
