"""DescribeGroupsResponse (key 15), versions 0 to 6. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribedGroupMember(NamedTuple):
    """A part of it."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


DESCRIBED_GROUP_MEMBER: Final = Layout(
    DescribedGroupMember,
    (
        Field("member_id", "string", 0, 6),
        Field("group_instance_id", "string", 4, 6, default=None, nullable_from=4),
        Field("client_id", "string", 0, 6),
        Field("client_host", "string", 0, 6),
        Field("member_metadata", "bytes", 0, 6),
        Field("member_assignment", "bytes", 0, 6),
    ),
)


class DescribedGroup(NamedTuple):
    """A part of it."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: int = -2147483648


DESCRIBED_GROUP: Final = Layout(
    DescribedGroup,
    (
        Field("error_code", "error_code", 0, 6, default=0),
        Field("error_message", "string", 6, 6, default=None, nullable_from=6),
        Field("group_id", "string", 0, 6),
        Field("group_state", "string", 0, 6),
        Field("protocol_type", "string", 0, 6),
        Field("protocol_data", "string", 0, 6),
        Field("members", STRUCTURE, 0, 6, is_array=True, nested=DESCRIBED_GROUP_MEMBER),
        Field("authorized_operations", "int32", 3, 6, default=-2147483648),
    ),
)


class DescribeGroupsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()


LAYOUT: Final = Layout(
    DescribeGroupsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 6, default=0),
        Field("groups", STRUCTURE, 0, 6, is_array=True, nested=DESCRIBED_GROUP),
    ),
)
