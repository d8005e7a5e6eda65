"""RenewDelegationTokenResponse (key 39), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class RenewDelegationTokenResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


LAYOUT: Final = Layout(
    RenewDelegationTokenResponse,
    (
        Field("error_code", "error_code", 1, 2, default=0),
        Field("expiry_timestamp_ms", "datetime_i64", 1, 2),
        Field("throttle_time_ms", "timedelta_i32", 1, 2, default=0),
    ),
)
