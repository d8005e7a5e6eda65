"""SaslHandshakeRequest (key 17), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class SaslHandshakeRequest(NamedTuple):
    """The message."""

    mechanism: str = ""


LAYOUT: Final = Layout(
    SaslHandshakeRequest,
    (Field("mechanism", "string", 0, 1),),
)
