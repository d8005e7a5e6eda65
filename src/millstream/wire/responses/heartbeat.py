"""HeartbeatResponse (key 12), versions 0 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class HeartbeatResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0


LAYOUT: Final = Layout(
    HeartbeatResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 4, default=0),
        Field("error_code", "error_code", 0, 4, default=0),
    ),
)
