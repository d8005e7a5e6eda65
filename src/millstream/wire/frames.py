"""Frames and the headers inside them.

    frame     int32 size of what follows | header | body
    request   int16 api key | int16 version | int32 correlation id | string client id (or null) | tagged fields, if flexible
    response  int32 correlation id | tagged fields, if flexible (never for ApiVersions)

The connection owns the buffer and cuts frames out of it; here is only what the bytes mean. The size is judged before a byte of the body is
waited for, so that no client makes the broker allocate what it will refuse. A client that speaks TLS or HTTP to this port gets a sentence
in the log that says so. The client id keeps its old form even in flexible headers (KIP-511), so that a broker can always read it.
"""

import struct
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import MalformedFrame
from millstream.wire.api import has_flexible_response_header, is_flexible
from millstream.wire.primitives import INT32, nullable_string, skip_tags

SIZE_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`."""

_FIXED: Final = struct.Struct(">hhih")
_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")
_SIZE_CORRELATION_AND_NO_TAGS: Final = struct.Struct(">iib")
_SMALLEST_FRAME: Final = 4
_TLS_HANDSHAKE: Final = b"\x16\x03"
_TLS_ALERT: Final = b"\x15\x03"
_HTTP_METHODS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")


class RequestHeader(NamedTuple):
    """The header of a request; its body starts at `body_start` of the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_start: int


def read_size(buffer: Buffer, position: int = 0, *, limit: int = MAX_FRAME_BYTES) -> int:
    """Size of the frame whose four size bytes stand at `position`; the caller has made sure that they are there."""
    size: int = INT32.unpack_from(buffer, position)[0]
    if size < _SMALLEST_FRAME or size > limit:
        raise MalformedFrame(_explain_size(bytes(buffer[position : position + SIZE_BYTES]), size=size, limit=limit))
    return size


def read_request_header(frame: Buffer) -> RequestHeader:
    """The header of the request in `frame` (without the size)."""
    try:
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(frame)
    except struct.error:
        raise MalformedFrame(f"a request of {len(frame)} bytes is shorter than its header") from None
    position = 10
    client_id = None
    if length >= 0:
        position += length
        if position > len(frame):
            raise MalformedFrame(f"a client id of {length} bytes does not fit into a request of {len(frame)} bytes")
        try:
            client_id = str(frame[10:position], "utf-8")
        except UnicodeDecodeError:
            raise MalformedFrame("the client id is not valid UTF-8") from None
    elif length != -1:
        raise MalformedFrame(f"a client id cannot have {length} bytes")
    if is_flexible(api_key, api_version):
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            position = skip_tags(frame, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def encode_request_header(api_key: int, version: int, *, correlation_id: int, client_id: str | None) -> bytes:
    """The header of a request, without the size."""
    fixed = struct.pack(">hhi", api_key, version, correlation_id) + nullable_string(client_id)
    return fixed + b"\x00" if is_flexible(api_key, version) else fixed


def frame_response(api_key: int, version: int, *, correlation_id: int, body: bytes) -> bytes:
    """A whole answer: size, header, body."""
    if has_flexible_response_header(api_key, version):
        return _SIZE_CORRELATION_AND_NO_TAGS.pack(len(body) + 5, correlation_id, 0) + body
    return _SIZE_AND_CORRELATION.pack(len(body) + 4, correlation_id) + body


def read_response_header(frame: Buffer, *, api_key: int, version: int) -> tuple[int, int]:
    """Correlation id and start of the body of the answer in `frame` (without the size)."""
    if len(frame) < 4:
        raise MalformedFrame(f"an answer of {len(frame)} bytes is shorter than its header")
    correlation_id: int = INT32.unpack_from(frame)[0]
    return correlation_id, skip_tags(frame, 4) if has_flexible_response_header(api_key, version) else 4


def _explain_size(start: bytes, *, size: int, limit: int) -> str:
    if start.startswith(_TLS_HANDSHAKE):
        return "a TLS handshake on a port without TLS: the client is set to SSL, the listener is not"
    if start.startswith(_TLS_ALERT):
        return "a TLS alert to a client without TLS: this port speaks TLS; set security.protocol to SSL or SASL_SSL"
    if start in _HTTP_METHODS:
        return f"an HTTP request ({start.decode().strip()}) on the port of the Kafka protocol"
    if size > limit:
        return f"a frame of {size} bytes is above the limit of {limit} (socket.request.max.bytes)"
    return f"a frame cannot have a size of {size} bytes"
