"""ApiVersions: the first question on every connection. Which versions of which APIs does this broker speak?

It is asked in version 3 with the name of this client (KIP-511). A broker that does not know version 3 answers in version 0 with the error
UNSUPPORTED_VERSION and does not hang up, so it is asked once more, in version 0.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from millstream.buffer import Buffer
from millstream.client.errors import kafka_error
from millstream.client.request import Request
from millstream.errors import MalformedFrame, UnsupportedVersion
from millstream.wire.api import ApiKey
from millstream.wire.messages import decode_response, encode_request_body
from millstream.wire.primitives import INT16

SOFTWARE_NAME: Final = "millstream"
SOFTWARE_VERSION: Final = "0.1.0"

Ranges = Mapping[int, tuple[int, int]]

_NEWEST: Final = 3
_OLDEST: Final = 0


class ApiVersionsRequest:
    """The question, in one version; the answer is lowest and highest version by API key, or None if the version is too new."""

    api_key = int(ApiKey.API_VERSIONS)
    versions = (_OLDEST, _NEWEST)
    has_answer = True

    def encode(self, version: int) -> Sequence[Buffer]:
        fields = {"client_software_name": SOFTWARE_NAME, "client_software_version": SOFTWARE_VERSION}
        return (encode_request_body(self.api_key, version, request=fields),)

    def decode(self, version: int, body: memoryview) -> Ranges | None:
        if len(body) < INT16.size:
            raise MalformedFrame("an answer to ApiVersions without an error code: is this a broker?")
        (error_code,) = INT16.unpack_from(body)
        if error_code == UnsupportedVersion.code and version != _OLDEST:
            return None
        if error_code:
            raise kafka_error(error_code)
        answer = decode_response(self.api_key, version, body=body)
        return {int(entry.api_key): (int(entry.min_version), int(entry.max_version)) for entry in answer.api_keys}


def negotiate(call: Callable[[Request[Ranges | None], int], Ranges | None]) -> Ranges:
    """Ask with `call(request, version)`, newest version first."""
    for version in (_NEWEST, _OLDEST):
        spoken = call(ApiVersionsRequest(), version)
        if spoken is not None:
            return spoken
    raise UnsupportedVersion("this broker speaks no version of ApiVersions that this client does")
