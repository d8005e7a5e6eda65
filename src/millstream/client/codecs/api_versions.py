"""ApiVersions: the first request of every connection. Which versions of which APIs does this broker know?

It is sent in version 3 with the name of this client (KIP-511). A broker that does not know version 3 answers in version 0 with the error
UNSUPPORTED_VERSION and keeps the connection, so it is asked once more, in version 0.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from millstream.buffer import Buffer
from millstream.client.errors import kafka_error
from millstream.errors import MalformedFrame, UnsupportedVersion
from millstream.wire.api import SOFTWARE_NAME, ApiKey
from millstream.wire.messages import decode_response, encode_request_body
from millstream.wire.primitives import INT16

if TYPE_CHECKING:
    from millstream.wire.responses.api_versions import ApiVersionsResponse

SOFTWARE_VERSION: Final = "0.1.0"
HANDSHAKE_VERSIONS: Final = (3, 0)
"""In which versions to ask, until one is understood."""

Ranges = Mapping[int, tuple[int, int]]
"""Lowest and highest version by API key."""


class ApiVersionsRequest:
    """The request, in one version; the answer is the ranges, or None if the version is too new for the broker."""

    api_key = int(ApiKey.API_VERSIONS)
    versions = (HANDSHAKE_VERSIONS[-1], HANDSHAKE_VERSIONS[0])
    has_answer = True

    def encode(self, version: int) -> Sequence[Buffer]:
        fields = {"client_software_name": SOFTWARE_NAME, "client_software_version": SOFTWARE_VERSION}
        return (encode_request_body(self.api_key, version, request=fields),)

    def decode(self, version: int, body: memoryview) -> Ranges | None:
        if len(body) < INT16.size:
            raise MalformedFrame("an answer to ApiVersions without an error code: is this a broker?")
        (error_code,) = INT16.unpack_from(body)
        if error_code == UnsupportedVersion.code and version != HANDSHAKE_VERSIONS[-1]:
            return None
        if error_code:
            raise kafka_error(error_code)
        answer: ApiVersionsResponse = decode_response(self.api_key, version, body=body)
        return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
