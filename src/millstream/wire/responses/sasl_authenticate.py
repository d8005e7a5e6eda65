"""SaslAuthenticateResponse (key 36), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class SaslAuthenticateResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


LAYOUT: Final = Layout(
    SaslAuthenticateResponse,
    (
        Field("error_code", "error_code", 0, 2, default=0),
        Field("error_message", "string", 0, 2, nullable_from=0),
        Field("auth_bytes", "bytes", 0, 2),
        Field("session_lifetime_ms", "timedelta_i64", 1, 2, default=0),
    ),
)
