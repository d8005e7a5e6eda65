"""JoinGroupResponse (key 11), versions 0 to 9. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class JoinGroupResponseMember(NamedTuple):
    """A part of it."""

    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""


JOIN_GROUP_RESPONSE_MEMBER: Final = Layout(
    JoinGroupResponseMember,
    (
        Field("member_id", "string", 0, 9),
        Field("group_instance_id", "string", 5, 9, default=None, nullable_from=5),
        Field("metadata", "bytes", 0, 9),
    ),
)


class JoinGroupResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


LAYOUT: Final = Layout(
    JoinGroupResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 2, 9, default=0),
        Field("error_code", "error_code", 0, 9, default=0),
        Field("generation_id", "int32", 0, 9, default=-1),
        Field("protocol_type", "string", 7, 9, default=None, nullable_from=7),
        Field("protocol_name", "string", 0, 9, nullable_from=7),
        Field("leader", "string", 0, 9),
        Field("skip_assignment", "bool", 9, 9, default=False),
        Field("member_id", "string", 0, 9),
        Field("members", STRUCTURE, 0, 9, is_array=True, nested=JOIN_GROUP_RESPONSE_MEMBER),
    ),
)
