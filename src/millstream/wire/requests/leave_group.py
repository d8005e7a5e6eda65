"""LeaveGroupRequest (key 13), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class MemberIdentity(NamedTuple):
    """A part of it."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


MEMBER_IDENTITY: Final = Layout(
    MemberIdentity,
    (
        Field("member_id", "string", 3, 5),
        Field("group_instance_id", "string", 3, 5, default=None, nullable_from=3),
        Field("reason", "string", 5, 5, default=None, nullable_from=5),
    ),
)


class LeaveGroupRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    members: tuple[MemberIdentity, ...] = ()
    member_id: str = ""


LAYOUT: Final = Layout(
    LeaveGroupRequest,
    (
        Field("group_id", "string", 0, 5),
        Field("members", STRUCTURE, 3, 5, is_array=True, nested=MEMBER_IDENTITY),
        Field("member_id", "string", 0, 2),
    ),
)
