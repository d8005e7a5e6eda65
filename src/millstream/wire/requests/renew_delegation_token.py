"""RenewDelegationTokenRequest (key 39), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class RenewDelegationTokenRequest(NamedTuple):
    """The message."""

    hmac: bytes = b""
    renew_period_ms: int = 0


LAYOUT: Final = Layout(
    RenewDelegationTokenRequest,
    (
        Field("hmac", "bytes", 1, 2),
        Field("renew_period_ms", "timedelta_i64", 1, 2),
    ),
)
