"""A blocking connection that sends one Kafka request at a time, or several, or bytes that are no request at all.

Requests are written as dictionaries with Kafka's snake_case field names; fields that the version does not have are dropped and missing
ones take the schema's default (or zero, the empty string, the empty array). Answers are kio's own entities, so that nothing here rests on
Millstream's codecs.
"""

import dataclasses
import io
import socket
import struct
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from types import NoneType
from typing import Any, Self, get_args, get_origin, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 19, 20, 21, 22, 23
DESCRIBE_CONFIGS, ALTER_CONFIGS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 35, 37, 44
DESCRIBE_QUORUM, DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS, DESCRIBE_TOPIC_PARTITIONS = 55, 60, 61, 75

_ZERO: dict[str, object] = {"string": "", "bytes": b"", "bool": False, "uuid": None, "records": None, "float64": 0.0}


class ConnectionEnded(Exception):
    """The broker closed the connection."""


class Connection:
    """One TCP connection to a broker."""

    def __init__(self, address: tuple[str, int], *, timeout_s: float = 30.0) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close without asking."""
        self.socket.close()

    def ask(self, api_key: int, version: int, fields: Mapping[str, object] | None = None) -> Any:
        """Send one request and return its answer."""
        correlation_id = self.send(api_key, version, fields)
        received_id, body = self.receive(api_key, version)
        assert received_id == correlation_id, f"answer {received_id} to request {correlation_id}"
        return body

    def send(self, api_key: int, version: int, fields: Mapping[str, object] | None = None) -> int:
        """Send one request without waiting; returns its correlation id."""
        self._correlation_id += 1
        self.socket.sendall(encode_request(api_key, version, fields or {}, correlation_id=self._correlation_id))
        return self._correlation_id

    def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        """Correlation id and decoded body of the next answer; every byte of it must be understood."""
        return decode_response(api_key, version, self.receive_frame())

    def receive_frame(self) -> bytes:
        """The next frame without its size."""
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def receive_exactly(self, size: int) -> bytes:
        """Exactly so many bytes."""
        received = bytearray()
        while len(received) < size:
            try:
                chunk = self.socket.recv(min(size - len(received), 1 << 20))
            except ConnectionResetError as error:
                raise ConnectionEnded(str(error)) from error
            if not chunk:
                raise ConnectionEnded(f"closed after {len(received)} of {size} bytes")
            received += chunk
        return bytes(received)

    def is_ended_by_peer(self) -> bool:
        """Wait until the broker closes the connection without having said anything."""
        try:
            return self.socket.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True
        except TimeoutError:
            return False


def encode_request(api_key: int, version: int, fields: Mapping[str, object], *, correlation_id: int = 1, client_id: str = "tests") -> bytes:
    """A whole frame, size included."""
    schema = load_request_schema(api_key, version)
    header: Any = schema.__header_schema__
    buffer = io.BytesIO()
    header_fields = {
        "request_api_key": api_key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    _writer(header)(buffer, build(header, header_fields))
    _writer(schema)(buffer, build(schema, fields))
    body = buffer.getvalue()
    return struct.pack(">i", len(body)) + body


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Any]:
    """Correlation id and body of a frame without its size."""
    schema = load_response_schema(api_key, version)
    header_schema: Any = schema.__header_schema__
    header, header_size = _reader(header_schema)(frame, 0)
    body, body_size = _reader(schema)(frame, header_size)
    assert header_size + body_size == len(frame), (
        f"{len(frame) - header_size - body_size} bytes left over in the answer to {api_key} v{version}"
    )
    return header.correlation_id, body


def versions_known_to_kio(api_key: int) -> range:
    """The versions of an API for which there is a schema."""
    versions = schema_name_map[api_key_map[api_key]].keys()
    return range(min(versions), max(versions) + 1)


def build(schema: Any, values: Mapping[str, object]) -> Any:
    """An entity of the schema from a tree of dictionaries and lists."""
    arguments = {}
    hints = _hints(schema)
    for field in dataclasses.fields(schema):
        given = field.name if field.name in values else f"{field.name}_ms"
        if given in values:
            arguments[field.name] = _convert(hints[field.name], values[given])
        elif field.default is dataclasses.MISSING:
            arguments[field.name] = _zero(hints[field.name], str(field.metadata.get("kafka_type", "")))
    return schema(**arguments)


def _convert(hint: Any, value: object) -> object:
    inner = [argument for argument in get_args(hint) if argument not in (NoneType, Ellipsis)]
    if value is None:
        return None
    if get_origin(hint) is tuple:
        assert isinstance(value, list | tuple)
        return tuple(_convert(inner[0], element) for element in value)
    if inner:
        return _convert(inner[0], value)
    if dataclasses.is_dataclass(hint):
        assert isinstance(value, Mapping)
        return build(hint, value)
    if isinstance(hint, type) and issubclass(hint, timedelta):
        assert isinstance(value, int)
        return timedelta(milliseconds=value)
    return value


def _zero(hint: Any, kafka_type: str) -> object:
    if get_origin(hint) is tuple:
        return ()
    if NoneType in get_args(hint):
        return None
    if dataclasses.is_dataclass(hint):
        return build(hint, {})
    if isinstance(hint, type) and issubclass(hint, timedelta):
        return timedelta(milliseconds=1000)
    return _ZERO.get(kafka_type, 0)


@cache
def _hints(schema: Any) -> dict[str, Any]:
    return get_type_hints(schema)


@cache
def _writer(schema: Any) -> Any:
    return entity_writer(schema)


@cache
def _reader(schema: Any) -> Any:
    return entity_reader(schema)
