"""AddRaftVoterResponse (key 80), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class AddRaftVoterResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


LAYOUT: Final = Layout(
    AddRaftVoterResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, nullable_from=0),
    ),
)
