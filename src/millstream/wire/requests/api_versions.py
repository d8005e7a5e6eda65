"""ApiVersionsRequest (key 18), versions 0 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class ApiVersionsRequest(NamedTuple):
    """The message."""

    client_software_name: str = ""
    client_software_version: str = ""


LAYOUT: Final = Layout(
    ApiVersionsRequest,
    (
        Field("client_software_name", "string", 3, 4),
        Field("client_software_version", "string", 3, 4),
    ),
)
