"""A small broker on the test's own loop: it answers Metadata with the controller that it is given, when it is let."""

import asyncio
import struct
from typing import Self

from millstream.address import Address
from millstream.wire.api import ApiKey
from millstream.wire.messages import encode_response


class ControllerPeer:
    """Something to connect to, drop, hold back and count."""

    def __init__(self, *, controller: int) -> None:
        self.controller = controller
        self.accepted = 0
        self.asked = 0
        self.is_held = False
        self._released = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = Address(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.release()
        self.drop()
        await self._server.wait_closed()

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    def drop(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.close()

    def release(self) -> None:
        """Answer what was held back, and everything from now on."""
        self.is_held = False
        self._released.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                writer.write(await self._answer(frame))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, frame: bytes) -> bytes:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        if key == ApiKey.API_VERSIONS:
            entries = [{"api_key": ApiKey.METADATA, "min_version": 0, "max_version": 12}]
            reply: dict[str, object] = {"error_code": 0, "api_keys": entries, "throttle_time_ms": 0}
        else:
            self.asked += 1
            if self.is_held:
                await self._released.wait()
            reply = {"brokers": [], "topics": [], "controller_id": self.controller, "throttle_time_ms": 0, "cluster_id": None}
        return encode_response(key, version, correlation_id=correlation_id, reply=reply)
