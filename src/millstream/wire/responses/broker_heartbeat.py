"""BrokerHeartbeatResponse (key 63), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class BrokerHeartbeatResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


LAYOUT: Final = Layout(
    BrokerHeartbeatResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 2, default=0),
        Field("error_code", "error_code", 0, 2, default=0),
        Field("is_caught_up", "bool", 0, 2, default=False),
        Field("is_fenced", "bool", 0, 2, default=True),
        Field("should_shut_down", "bool", 0, 2),
    ),
)
