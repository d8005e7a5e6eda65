"""A socket under an `asyncio.BufferedProtocol` without asyncio's transport: called by the loop's `add_reader`, and written to at once.

On a broker's loop (`broker.network.event_loop`) what is watched with `add_reader` is called straight from the poll, so that an answer costs
neither a handle nor a turn of asyncio's queue. Only what `client.async_connection` needs is here; TLS goes by asyncio's own transport.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from typing import Self

from millstream.address import Address
from millstream.buffer import Buffer
from millstream.client.connection import MOST_PIECES


class DirectTransport:
    """One connected socket."""

    def __init__(self, connected: socket.socket, protocol: asyncio.BufferedProtocol) -> None:
        self._socket = connected
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        """What the socket did not take at once."""
        self._is_closed = False
        self._loop.add_reader(connected.fileno(), self._readable)

    @classmethod
    async def open(cls, address: Address, protocol: asyncio.BufferedProtocol) -> Self:
        """Connect; OSError or UnicodeError if that cannot be done."""
        return cls(await _connect(address), protocol)

    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_closed

    def abort(self) -> None:
        """Close now; `connection_lost` follows."""
        self._close(None)

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """Send what the socket takes; the rest is sent when it takes more."""
        if self._unsent:
            self._keep(pieces, sent=0)
            return
        try:
            sent = self._socket.sendmsg(pieces[:MOST_PIECES])
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._close(error)
            return
        if sent < sum(map(len, pieces)):
            self._keep(pieces, sent=sent)
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _keep(self, pieces: Iterable[Buffer], *, sent: int) -> None:
        self._unsent += memoryview(b"".join(pieces))[sent:]

    def _writable(self) -> None:
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close(error)
            return
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            count = self._socket.recv_into(self._protocol.get_buffer(-1))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close(error)
            return
        if not count:
            self._close(None)
            return
        try:
            self._protocol.buffer_updated(count)
        except BaseException:
            # As asyncio's transports do it: what comes next would not be understood, and whoever waits would do so in vain.
            self._close(None)
            raise

    def _close(self, error: OSError | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        descriptor = self._socket.fileno()
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        self._socket.close()
        self._loop.call_soon(self._protocol.connection_lost, error)


async def _connect(address: Address) -> socket.socket:
    """A socket that is connected to the first address of the host that answers."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    failure = OSError(f"{address.host} has no address")
    for family, kind, protocol, _, place in found:
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.setblocking(False)
            await loop.sock_connect(connecting, place)
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connecting.close()
            failure = error
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    raise failure
