"""SaslHandshakeResponse (key 17), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class SaslHandshakeResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    mechanisms: tuple[str, ...] = ()


LAYOUT: Final = Layout(
    SaslHandshakeResponse,
    (
        Field("error_code", "error_code", 0, 1, default=0),
        Field("mechanisms", "string", 0, 1, default=(), is_array=True),
    ),
)
