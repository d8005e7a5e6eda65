"""AddOffsetsToTxnResponse (key 25), versions 0 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class AddOffsetsToTxnResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0


LAYOUT: Final = Layout(
    AddOffsetsToTxnResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 4, default=0),
        Field("error_code", "error_code", 0, 4, default=0),
    ),
)
