"""LeaveGroupResponse (key 13), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class MemberResponse(NamedTuple):
    """A part of it."""

    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0


MEMBER_RESPONSE: Final = Layout(
    MemberResponse,
    (
        Field("member_id", "string", 3, 5),
        Field("group_instance_id", "string", 3, 5, nullable_from=3),
        Field("error_code", "error_code", 3, 5, default=0),
    ),
)


class LeaveGroupResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    members: tuple[MemberResponse, ...] = ()


LAYOUT: Final = Layout(
    LeaveGroupResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 5, default=0),
        Field("error_code", "error_code", 0, 5, default=0),
        Field("members", STRUCTURE, 3, 5, is_array=True, nested=MEMBER_RESPONSE),
    ),
)
