"""DescribeAclsResponse (key 29), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AclDescription(NamedTuple):
    """A part of it."""

    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


ACL_DESCRIPTION: Final = Layout(
    AclDescription,
    (
        Field("principal", "string", 1, 3),
        Field("host", "string", 1, 3),
        Field("operation", "int8", 1, 3),
        Field("permission_type", "int8", 1, 3),
    ),
)


class DescribeAclsResource(NamedTuple):
    """A part of it."""

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: tuple[AclDescription, ...] = ()


DESCRIBE_ACLS_RESOURCE: Final = Layout(
    DescribeAclsResource,
    (
        Field("resource_type", "int8", 1, 3),
        Field("resource_name", "string", 1, 3),
        Field("pattern_type", "int8", 1, 3, default=3),
        Field("acls", STRUCTURE, 1, 3, is_array=True, nested=ACL_DESCRIPTION),
    ),
)


class DescribeAclsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: tuple[DescribeAclsResource, ...] = ()


LAYOUT: Final = Layout(
    DescribeAclsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 3, default=0),
        Field("error_code", "error_code", 1, 3, default=0),
        Field("error_message", "string", 1, 3, nullable_from=1),
        Field("resources", STRUCTURE, 1, 3, is_array=True, nested=DESCRIBE_ACLS_RESOURCE),
    ),
)
