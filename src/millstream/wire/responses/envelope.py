"""EnvelopeResponse (key 58), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class EnvelopeResponse(NamedTuple):
    """The message."""

    response_data: bytes | None = None
    error_code: int = 0


LAYOUT: Final = Layout(
    EnvelopeResponse,
    (
        Field("response_data", "bytes", 0, 0, default=None, nullable_from=0),
        Field("error_code", "error_code", 0, 0, default=0),
    ),
)
