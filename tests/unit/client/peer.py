"""Something that listens where a broker should, and answers with whatever bytes a test wants."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from millstream.address import Address
from millstream.wire.api import ApiKey
from millstream.wire.messages import encode_response

Behave = Callable[[socket.socket], None]


@contextmanager
def peer(behave: Behave) -> Iterator[Address]:
    """Accepts one connection and lets `behave` have it, in a thread of its own; closed when that returns."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def run() -> None:
            with listener.accept()[0] as connection:
                connection.settimeout(10)
                behave(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield Address(*listener.getsockname())
        thread.join(10)
        assert not thread.is_alive()


def receive_frame(connection: socket.socket) -> bytes:
    """One frame without its size; nothing if the other side has ended."""
    size = receive_exactly(connection, 4)
    return receive_exactly(connection, struct.unpack(">i", size)[0]) if size else b""


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer if the other side has ended; without the flag that a socket with TLS does not take."""
    received = bytearray()
    while len(received) < size and (part := connection.recv(size - len(received))):
        received += part
    return bytes(received)


def answer_api_versions(connection: socket.socket, *ranges: tuple[int, int, int]) -> None:
    """Be a broker that speaks these APIs: key, lowest and highest version."""
    frame = receive_frame(connection)
    version, correlation_id = struct.unpack_from(">hi", frame, 2)
    entries = [{"api_key": key, "min_version": lowest, "max_version": highest} for key, lowest, highest in ranges]
    reply = {"error_code": 0, "api_keys": entries, "throttle_time_ms": 0}
    connection.sendall(encode_response(ApiKey.API_VERSIONS, version, correlation_id=correlation_id, reply=reply))
