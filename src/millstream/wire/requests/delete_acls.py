"""DeleteAclsRequest (key 31), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeleteAclsFilter(NamedTuple):
    """A part of it."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


DELETE_ACLS_FILTER: Final = Layout(
    DeleteAclsFilter,
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


class DeleteAclsRequest(NamedTuple):
    """The message."""

    filters: tuple[DeleteAclsFilter, ...] = ()


LAYOUT: Final = Layout(
    DeleteAclsRequest,
    (Field("filters", STRUCTURE, 1, 3, is_array=True, nested=DELETE_ACLS_FILTER),),
)
