"""JoinGroupRequest (key 11), versions 0 to 9. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class JoinGroupRequestProtocol(NamedTuple):
    """A part of it."""

    name: str = ""
    metadata: bytes = b""


JOIN_GROUP_REQUEST_PROTOCOL: Final = Layout(
    JoinGroupRequestProtocol,
    (
        Field("name", "string", 0, 9),
        Field("metadata", "bytes", 0, 9),
    ),
)


class JoinGroupRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: str | None = None


LAYOUT: Final = Layout(
    JoinGroupRequest,
    (
        Field("group_id", "string", 0, 9),
        Field("session_timeout_ms", "timedelta_i32", 0, 9),
        Field("rebalance_timeout_ms", "timedelta_i32", 1, 9, default=-1),
        Field("member_id", "string", 0, 9),
        Field("group_instance_id", "string", 5, 9, default=None, nullable_from=5),
        Field("protocol_type", "string", 0, 9),
        Field("protocols", STRUCTURE, 0, 9, is_array=True, nested=JOIN_GROUP_REQUEST_PROTOCOL),
        Field("reason", "string", 8, 9, default=None, nullable_from=8),
    ),
)
