"""SaslAuthenticateRequest (key 36), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class SaslAuthenticateRequest(NamedTuple):
    """The message."""

    auth_bytes: bytes = b""


LAYOUT: Final = Layout(
    SaslAuthenticateRequest,
    (Field("auth_bytes", "bytes", 0, 2),),
)
