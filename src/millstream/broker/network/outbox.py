"""What a connection still has to send: bytes and file regions, in order, drained in one place.

Regions go from the page cache to the socket with `sendfile`; the bytes before a region are sent with MSG_MORE so that both leave in full
packets. The socket is not blocking: what does not fit now is sent when the socket is writable again.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import Final

from millstream.log.region import FileRegion

Chunk = bytes | bytearray | FileRegion
JOIN_UP_TO: Final = 64 * 1024
"""Small pieces are sent in one call; joining more would copy what the socket does not take anyway, again and again."""
MAX_SENDFILE: Final = 1024 * 1024
MAX_PER_TURN: Final = 4 * 1024 * 1024
"""So much of the regions goes out before others get their turn: a fast reader does not keep the loop to itself."""


class Outbox:
    """The sending half of one connection."""

    __slots__ = ("_chunks", "_socket", "queued_bytes")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._chunks: deque[Chunk | memoryview] = deque()
        self.queued_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def extend(self, chunks: Iterable[Chunk]) -> None:
        """Queue an answer."""
        for chunk in chunks:
            self._chunks.append(chunk)
            # By type: `isinstance` is a call, and this is done for each answer.
            self.queued_bytes += chunk.length if type(chunk) is FileRegion else len(chunk)

    def drain(self) -> bool:
        """Send as much as the socket takes, within one turn; True when nothing is left. Raises OSError when the peer is gone."""
        chunks = self._chunks
        turn = MAX_PER_TURN
        try:
            while chunks:
                chunk = chunks.popleft()
                if type(chunk) is FileRegion:
                    if turn <= 0:
                        chunks.appendleft(chunk)
                        return False
                    turn -= self._send_region(chunk)
                else:
                    self._send_bytes(chunk)
        except BlockingIOError:
            return False
        return True

    def clear(self) -> None:
        """Forget everything; the connection is gone."""
        self._chunks.clear()
        self.queued_bytes = 0

    def _send_bytes(self, chunk: bytes | bytearray | memoryview) -> None:
        chunks = self._chunks
        flags = 0
        if chunks:
            parts = [chunk]
            size = len(chunk)
            while chunks and not isinstance(following := chunks[0], FileRegion) and size + len(following) <= JOIN_UP_TO:
                parts.append(following)
                size += len(following)
                chunks.popleft()
            if len(parts) > 1:
                chunk = b"".join(parts)
            if chunks:
                flags = socket.MSG_MORE
        try:
            sent = self._socket.send(chunk, flags)
        except BlockingIOError:
            chunks.appendleft(chunk)
            raise
        self.queued_bytes -= sent
        if sent < len(chunk):
            chunks.appendleft(memoryview(chunk)[sent:])
            raise BlockingIOError

    def _send_region(self, region: FileRegion) -> int:
        try:
            sent = os.sendfile(self._socket.fileno(), region.handle.fd, region.position, min(region.length, MAX_SENDFILE))
        except BlockingIOError:
            self._chunks.appendleft(region)
            raise
        if sent == 0:
            raise OSError(errno.EIO, f"{region.handle.path.name} is shorter than the region that was to be sent")
        self.queued_bytes -= sent
        if sent < region.length:
            self._chunks.appendleft(FileRegion(region.handle, region.position + sent, region.length - sent))
            if sent < MAX_SENDFILE:
                raise BlockingIOError
        return sent
