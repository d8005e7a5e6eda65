"""EndTxnResponse (key 26), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class EndTxnResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


LAYOUT: Final = Layout(
    EndTxnResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 5, default=0),
        Field("error_code", "error_code", 0, 5, default=0),
        Field("producer_id", "int64", 5, 5, default=-1),
        Field("producer_epoch", "int16", 5, 5, default=-1),
    ),
)
