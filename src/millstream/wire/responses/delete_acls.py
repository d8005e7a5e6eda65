"""DeleteAclsResponse (key 31), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeleteAclsMatchingAcl(NamedTuple):
    """A part of it."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


DELETE_ACLS_MATCHING_ACL: Final = Layout(
    DeleteAclsMatchingAcl,
    (
        Field("error_code", "error_code", 1, 3, default=0),
        Field("error_message", "string", 1, 3, nullable_from=1),
        Field("resource_type", "int8", 1, 3),
        Field("resource_name", "string", 1, 3),
        Field("pattern_type", "int8", 1, 3, default=3),
        Field("principal", "string", 1, 3),
        Field("host", "string", 1, 3),
        Field("operation", "int8", 1, 3),
        Field("permission_type", "int8", 1, 3),
    ),
)


class DeleteAclsFilterResult(NamedTuple):
    """A part of it."""

    error_code: int = 0
    error_message: str | None = ""
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


DELETE_ACLS_FILTER_RESULT: Final = Layout(
    DeleteAclsFilterResult,
    (
        Field("error_code", "error_code", 1, 3, default=0),
        Field("error_message", "string", 1, 3, nullable_from=1),
        Field("matching_acls", STRUCTURE, 1, 3, is_array=True, nested=DELETE_ACLS_MATCHING_ACL),
    ),
)


class DeleteAclsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()


LAYOUT: Final = Layout(
    DeleteAclsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 3, default=0),
        Field("filter_results", STRUCTURE, 1, 3, is_array=True, nested=DELETE_ACLS_FILTER_RESULT),
    ),
)
