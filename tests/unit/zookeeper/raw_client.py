"""A ZooKeeper client that hides nothing: it writes the bytes a test gives it and shows the bytes that come back."""

import asyncio
import struct
from typing import NamedTuple, Self

from millstream.zookeeper.acl import OPEN_TO_ALL, Acl
from millstream.zookeeper.change import encode_acl
from millstream.zookeeper.jute import encode_buffer, encode_string
from millstream.zookeeper.protocol import Opcode


class Reply(NamedTuple):
    """A frame from the server; xid -1 is a watch event."""

    xid: int
    zxid: int
    error: int
    body: bytes


class RawClient:
    """One connection, before or after its handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._xid = 0
        self.events: list[bytes] = []
        self.session_id = 0
        self.password = bytes(16)
        self.timeout_ms = -1

    @classmethod
    async def open(cls, port: int) -> Self:
        """A connection that has said nothing yet."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @classmethod
    async def connect(cls, port: int, *, timeout_ms: int = 10_000, session_id: int = 0, password: bytes = bytes(16), zxid: int = 0) -> Self:
        """A connection after its handshake; a `timeout_ms` of 0 means the session is over."""
        client = await cls.open(port)
        client.send(struct.pack(">iqiq", 0, zxid, timeout_ms, session_id) + encode_buffer(password) + b"\x00")
        frame = await client.frame()
        _, client.timeout_ms, client.session_id = struct.unpack_from(">iiq", frame)
        client.password = frame[20:36]
        return client

    def send(self, frame: bytes) -> None:
        """Send a frame with its length."""
        self.send_raw(struct.pack(">i", len(frame)) + frame)

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    async def frame(self) -> bytes:
        """The next frame."""
        async with asyncio.timeout(20):
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(length)

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(20):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""
            finally:
                await self.close()

    def ask(self, opcode: int, body: bytes = b"", *, xid: int | None = None) -> None:
        """Send a request and do not wait."""
        self._xid += 1
        self.send(struct.pack(">ii", self._xid if xid is None else xid, opcode) + body)

    async def reply(self) -> Reply:
        """The next reply; events on the way are kept."""
        while True:
            frame = await self.frame()
            xid, zxid, error = struct.unpack_from(">iqi", frame)
            reply = Reply(xid, zxid, error, frame[16:])
            if reply.xid != -1:
                return reply
            self.events.append(reply.body)

    async def request(self, opcode: int, body: bytes = b"", *, xid: int | None = None) -> Reply:
        """Send a request and wait for its reply."""
        self.ask(opcode, body, xid=xid)
        return await self.reply()

    async def close(self) -> None:
        """Drop the connection, not the session."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


def create_body(path: str, data: bytes | None = b"", *, flags: int = 0, acl: Acl = OPEN_TO_ALL) -> bytes:
    """The body of a create."""
    return encode_string(path) + encode_buffer(data) + encode_acl(acl) + struct.pack(">i", flags)


def path_body(path: str, *, watch: bool = False) -> bytes:
    """The body of a read."""
    return encode_string(path) + bytes([watch])


def version_body(path: str, version: int = -1) -> bytes:
    """The body of a delete or check."""
    return encode_string(path) + struct.pack(">i", version)


def set_body(path: str, data: bytes | None, version: int = -1) -> bytes:
    """The body of a set."""
    return encode_string(path) + encode_buffer(data) + struct.pack(">i", version)


def multi_body(*operations: tuple[int, bytes]) -> bytes:
    """The body of a multi of opcodes and bodies."""
    return b"".join([struct.pack(">ibi", opcode, 0, -1) + body for opcode, body in operations]) + struct.pack(">ibi", -1, 1, -1)


def set_watches_body(zxid: int, *, data: list[str], exists: list[str], children: list[str]) -> bytes:
    """The body of a setWatches."""
    vectors = [struct.pack(">i", len(names)) + b"".join(map(encode_string, names)) for names in (data, exists, children)]
    return struct.pack(">q", zxid) + b"".join(vectors)


async def ping(client: RawClient) -> Reply:
    """Ask whether the server is there."""
    return await client.request(Opcode.PING, xid=-2)
