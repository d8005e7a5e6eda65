"""Whole requests by our own codecs, for tests of what reads them; `tests.connection` has kio's."""

from collections.abc import Mapping

from millstream.wire.frames import encode_request_header
from millstream.wire.messages import encode_request_body
from millstream.wire.primitives import INT32


def framed_request(
    api_key: int, version: int, *, correlation_id: int, request: Mapping[str, object], client_id: str | None = None
) -> bytes:
    """Size, header and body."""
    header = encode_request_header(api_key, version, correlation_id=correlation_id, client_id=client_id)
    body = header + encode_request_body(api_key, version, request=request)
    return INT32.pack(len(body)) + body
