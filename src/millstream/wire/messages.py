"""Every message that has no codec of its own: bytes to named tuples, plain mappings to bytes.

The layouts are generated from Kafka's own descriptions (`wire.requests`, `wire.responses`), a module per API that is imported when the
first message of its kind comes or goes; the compiled reader or writer of a version is kept. What comes from outside is bounded in bytes and
in elements of arrays, and whatever is wrong with it is a `MalformedFrame`.

Produce and Fetch go through `wire.produce` and `wire.fetch` in the broker; here they serve tests and clients.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from millstream.buffer import Buffer
from millstream.errors import MalformedFrame
from millstream.wire.api import API_VERSIONS, ApiKey, is_flexible
from millstream.wire.frames import frame_response
from millstream.wire.message_reader import Budget, Reader, message_reader
from millstream.wire.message_writer import Writer, message_writer
from millstream.wire.schema import Schema, schema_at

MAX_REQUEST_BYTES: Final = 8 * 1024 * 1024
"""Biggest body of a request; the big ones, Produce, do not come this way."""
MAX_REQUEST_ELEMENTS: Final = 200_000
"""Most array elements in one request, over all its arrays."""
MAX_RESPONSE_ELEMENTS: Final = 10_000_000


def decode_request(api_key: int, version: int, *, body: Buffer, start: int = 0) -> Any:
    """The request whose body begins at `start` of `body`; bytes after it are ignored, as Kafka does."""
    if len(body) - start > MAX_REQUEST_BYTES:
        raise MalformedFrame(f"a request of {len(body) - start} bytes is above the limit of {MAX_REQUEST_BYTES} for {_name(api_key)}")
    read = _reader(api_key, version, "request")
    return read(memoryview(body), start, Budget(MAX_REQUEST_ELEMENTS))[0]


def encode_response(api_key: int, version: int, *, correlation_id: int, reply: Mapping[str, object]) -> bytes:
    """The whole answer: size, header and the reply."""
    body = _writer(api_key, version, "response")(reply)
    return frame_response(api_key, version, correlation_id=correlation_id, body=body)


def encode_request_body(api_key: int, version: int, *, request: Mapping[str, object]) -> bytes:
    """The body of a request, without its size and header."""
    return _writer(api_key, version, "request")(request)


def decode_response(api_key: int, version: int, *, body: Buffer, start: int = 0) -> Any:
    """The answer whose body begins at `start` of `body` (see `frames.read_response_header`)."""
    read = _reader(api_key, version, "response")
    return read(memoryview(body), start, Budget(MAX_RESPONSE_ELEMENTS))[0]


def schema_of(api_key: int, version: int, kind: str) -> Schema:
    """What one version of a request or response looks like."""
    known = API_VERSIONS.get(api_key)
    if known is None or not known.lowest <= version <= known.highest:
        raise MalformedFrame(f"there is no version {version} of {_name(api_key)}")
    module = import_module(f"millstream.wire.{kind}s.{ApiKey(api_key).name.lower()}")
    return schema_at(module.LAYOUT, version, is_flexible=is_flexible(api_key, version))


@cache
def _reader(api_key: int, version: int, kind: str) -> Reader:
    return message_reader(schema_of(api_key, version, kind))


@cache
def _writer(api_key: int, version: int, kind: str) -> Writer:
    return message_writer(schema_of(api_key, version, kind))


def _name(api_key: int) -> str:
    try:
        return ApiKey(api_key).name
    except ValueError:
        return f"API key {api_key}"
