"""Every message that has no codec of its own, and the one door to kio.

kio's modules are dear to import, one or two for each version of each message, so a module is imported when the first message of its version
comes or goes, and the compiled reader or writer is kept. Messages are read into plain values (`plain_message`) and written from plain
mappings (`message_writer`), by Kafka's names. What comes from outside is bounded in bytes and in elements of arrays, and whatever is wrong
with it is a `MalformedFrame`.

Produce and Fetch go through `wire.produce` and `wire.fetch` in the broker; here they serve tests and clients.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final

from millstream.errors import MalformedFrame
from millstream.files import Buffer
from millstream.wire.api import API_VERSIONS, ApiKey
from millstream.wire.frames import frame_request, frame_response
from millstream.wire.message_reader import Budget, Reader, message_reader
from millstream.wire.message_writer import Writer, message_writer
from millstream.wire.schema import describe

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


def encode_request(
    api_key: int, version: int, *, correlation_id: int, request: Mapping[str, object], client_id: str | None = None
) -> bytes:
    """A whole request: size, header and body."""
    body = encode_request_body(api_key, version, request=request)
    return frame_request(api_key, version, correlation_id=correlation_id, client_id=client_id, body=body)


def encode_request_body(api_key: int, version: int, *, request: Mapping[str, object]) -> bytes:
    """The body of a request, without its size and header."""
    return _writer(api_key, version, "request")(request)


def decode_response(api_key: int, version: int, *, body: Buffer, start: int = 0) -> Any:
    """The answer whose body begins at `start` of `body` (see `frames.read_response_header`)."""
    read = _reader(api_key, version, "response")
    return read(memoryview(body), start, Budget(MAX_RESPONSE_ELEMENTS))[0]


def entity_class(api_key: int, version: int, kind: str) -> Any:
    """kio's class for one version of a request or response."""
    known = API_VERSIONS.get(api_key)
    if known is None or not known.lowest <= version <= known.highest:
        raise MalformedFrame(f"there is no version {version} of {_name(api_key)}")
    name = ApiKey(api_key).name.lower()
    class_name = "".join(word.capitalize() for word in name.split("_")) + kind.capitalize()
    with _without_hypothesis():
        return getattr(import_module(f"kio.schema.{name}.v{version}.{kind}"), class_name)


@cache
def _reader(api_key: int, version: int, kind: str) -> Reader:
    return message_reader(describe(entity_class(api_key, version, kind)))


@cache
def _writer(api_key: int, version: int, kind: str) -> Writer:
    return message_writer(describe(entity_class(api_key, version, kind)))


@contextmanager
def _without_hypothesis() -> Iterator[None]:
    """kio imports hypothesis wherever it is installed, which costs a start 0.4 s; unless somebody has loaded it, hide it meanwhile."""
    name = "hypothesis"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # None is how an import is made to fail
    try:
        yield
    finally:
        del sys.modules[name]


def _name(api_key: int) -> str:
    try:
        return ApiKey(api_key).name
    except ValueError:
        return f"API key {api_key}"
