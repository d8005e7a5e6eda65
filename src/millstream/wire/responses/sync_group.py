"""SyncGroupResponse (key 14), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class SyncGroupResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


LAYOUT: Final = Layout(
    SyncGroupResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 5, default=0),
        Field("error_code", "error_code", 0, 5, default=0),
        Field("protocol_type", "string", 5, 5, default=None, nullable_from=5),
        Field("protocol_name", "string", 5, 5, default=None, nullable_from=5),
        Field("assignment", "bytes", 0, 5),
    ),
)
