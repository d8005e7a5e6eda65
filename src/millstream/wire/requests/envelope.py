"""EnvelopeRequest (key 58), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class EnvelopeRequest(NamedTuple):
    """The message."""

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


LAYOUT: Final = Layout(
    EnvelopeRequest,
    (
        Field("request_data", "bytes", 0, 0),
        Field("request_principal", "bytes", 0, 0, nullable_from=0),
        Field("client_host_address", "bytes", 0, 0),
    ),
)
