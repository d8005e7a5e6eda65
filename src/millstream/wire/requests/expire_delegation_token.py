"""ExpireDelegationTokenRequest (key 40), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class ExpireDelegationTokenRequest(NamedTuple):
    """The message."""

    hmac: bytes = b""
    expiry_time_period_ms: int = 0


LAYOUT: Final = Layout(
    ExpireDelegationTokenRequest,
    (
        Field("hmac", "bytes", 1, 2),
        Field("expiry_time_period_ms", "timedelta_i64", 1, 2),
    ),
)
