"""DescribeAclsRequest (key 29), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class DescribeAclsRequest(NamedTuple):
    """The message."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


LAYOUT: Final = Layout(
    DescribeAclsRequest,
    (
        Field("resource_type_filter", "int8", 1, 3),
        Field("resource_name_filter", "string", 1, 3, nullable_from=1),
        Field("pattern_type_filter", "int8", 1, 3, default=3),
        Field("principal_filter", "string", 1, 3, nullable_from=1),
        Field("host_filter", "string", 1, 3, nullable_from=1),
        Field("operation", "int8", 1, 3),
        Field("permission_type", "int8", 1, 3),
    ),
)
