"""SyncGroupRequest (key 14), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class SyncGroupRequestAssignment(NamedTuple):
    """A part of it."""

    member_id: str = ""
    assignment: bytes = b""


SYNC_GROUP_REQUEST_ASSIGNMENT: Final = Layout(
    SyncGroupRequestAssignment,
    (
        Field("member_id", "string", 0, 5),
        Field("assignment", "bytes", 0, 5),
    ),
)


class SyncGroupRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


LAYOUT: Final = Layout(
    SyncGroupRequest,
    (
        Field("group_id", "string", 0, 5),
        Field("generation_id", "int32", 0, 5),
        Field("member_id", "string", 0, 5),
        Field("group_instance_id", "string", 3, 5, default=None, nullable_from=3),
        Field("protocol_type", "string", 5, 5, default=None, nullable_from=5),
        Field("protocol_name", "string", 5, 5, default=None, nullable_from=5),
        Field("assignments", STRUCTURE, 0, 5, is_array=True, nested=SYNC_GROUP_REQUEST_ASSIGNMENT),
    ),
)
