"""Accepts connections, within limits, and sweeps out those that are idle or stuck."""

import asyncio
import errno
import logging
import socket
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from millstream.broker.network.connection import Connection, FrameHandler
from millstream.broker.network.frame_reader import ReceiveBuffers
from millstream.broker.network.request_times import RequestTimes, Seldom
from millstream.broker.network.session import PLAINTEXT
from millstream.clock import Clock
from millstream.errors import StartupError
from millstream.options.settings import BrokerSettings

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
HINTS: Final = {
    errno.EADDRINUSE: "another program uses this port; choose another one with --listen HOST:PORT (port 0 picks a free one)",
    errno.EADDRNOTAVAIL: "this machine does not have that address; listen on one that it has, or on 0.0.0.0, with --listen HOST:PORT",
    errno.EACCES: "this user may not use that port; choose one from 1024 on with --listen HOST:PORT",
}
"""What to do about an address that cannot be had."""
ACCEPTS_PER_WAKE: Final = 100
SWEEP_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 1.0
HALF_FRAME_MS: Final = 30_000
_OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How much the outside world may ask for."""

    max_frame_size: int
    max_connections: int
    max_connections_per_address: int
    max_idle_ms: int
    max_half_frame_ms: int
    max_held_bytes: int

    @classmethod
    def of(cls, settings: BrokerSettings) -> Self:
        """What the options say."""
        return cls(
            max_frame_size=settings.integer("socket.request.max.bytes"),
            max_connections=settings.integer("max.connections"),
            max_connections_per_address=settings.integer("max.connections.per.ip"),
            max_idle_ms=settings.integer("connections.max.idle.ms"),
            max_half_frame_ms=HALF_FRAME_MS,
            max_held_bytes=settings.integer("queued.max.request.bytes"),
        )


class Listener:
    """A listening socket, or two, and the connections they have accepted."""

    name: Final = PLAINTEXT

    def __init__(
        self,
        handler: FrameHandler,
        *,
        limits: ConnectionLimits,
        clock: Clock,
        times: RequestTimes,
        max_connections: Callable[[], int] = lambda: sys.maxsize,
    ) -> None:
        self.limits = limits
        self.times = times
        """Of the requests of all connections, those that are gone too."""
        self._max_connections = max_connections
        """How many there are descriptors for, besides those that files need."""
        self._has_warned_of_descriptors = False
        self._refusals = Seldom()
        self.connections: dict[Connection, int] = {}
        self.bytes_of_closed = 0
        self._handler = handler
        self._clock = clock
        self._buffers = ReceiveBuffers(max_held_bytes=limits.max_held_bytes)
        self._per_address: Counter[str] = Counter()
        self._sockets: list[socket.socket] = []
        self._shared: tuple[str, int] | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def bind(self, host: str, port: int, *, shared: tuple[str, int] | None = None) -> tuple[str, int]:
        """Take the port; returns the address with the port that was given or picked. Clients that connect wait until `start`.

        `shared` is a second port, on which other processes of this machine listen too. It is taken by `start`: who does not serve yet
        must not be given a part of its clients.
        """
        self._shared = shared
        self._sockets.append(listen_for_clients(host, port, is_shared=shared is not None))
        bound_host, bound_port = self._sockets[0].getsockname()[:2]
        return bound_host, bound_port

    def start(self) -> None:
        """Begin to serve."""
        if self._shared is not None:
            self._sockets.append(listen_for_clients(*self._shared, is_shared=True))
        for listening in self._sockets:
            self._accept_again(listening)
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def close(self) -> None:
        """Stop listening and close every connection."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        while self._sockets:
            listening = self._sockets.pop()
            asyncio.get_running_loop().remove_reader(listening.fileno())
            listening.close()
        for connection in list(self.connections):
            connection.close()

    def renew_sessions(self) -> None:
        """The rules became others: every client passes the gate again, and no lane stays open."""
        for connection in list(self.connections):
            connection.identify(connection.session._replace())

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening.fileno(), partial(self._accept, listening))

    def _accept(self, listening: socket.socket) -> None:
        if listening not in self._sockets:
            return
        for _ in range(ACCEPTS_PER_WAKE):
            try:
                connected, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                logger.error("cannot accept connections for now: %s", error.strerror)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening.fileno())
                loop.call_later(PAUSE_SECONDS, self._accept_again, listening)
                return
            self._take(connected, address)

    def _take(self, connected: socket.socket, address: tuple[str, int]) -> None:
        host, port = address[:2]
        if len(self.connections) >= self._max_connections():
            self._warn_of_descriptors()
            connected.close()
            return
        refusal = self._refusal(host)
        if refusal is not None:
            ending = self._refusals.ending()
            if ending is not None:
                logger.warning("refused a connection from %s: %s%s", host, refusal, ending)
            connected.close()
            return
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(
            connected,
            peer=f"{host}:{port}",
            handler=self._handler,
            buffers=self._buffers,
            max_frame_size=self.limits.max_frame_size,
            times=self.times,
            on_close=self._closed,
            listener=self.name,
        )
        self.connections[connection] = self._clock.monotonic_ms()
        self._per_address[host] += 1

    def _refusal(self, host: str) -> str | None:
        if len(self.connections) >= self.limits.max_connections:
            return f"{len(self.connections)} connections are open (max.connections)"
        if self._per_address[host] >= self.limits.max_connections_per_address:
            return f"{self._per_address[host]} connections from this address are open (max.connections.per.ip)"
        return None

    def _warn_of_descriptors(self) -> None:
        if not self._has_warned_of_descriptors:
            self._has_warned_of_descriptors = True
            logger.error(
                "%d connections are open, and the other file descriptors of this process are kept for files: more connections are refused "
                "(raise `ulimit -n` and restart the broker; this is logged once)",
                len(self.connections),
            )

    def _closed(self, connection: Connection) -> None:
        if self.connections.pop(connection, None) is not None:
            self.bytes_of_closed += connection.bytes_received
            host = connection.session.host
            self._per_address[host] -= 1
            if not self._per_address[host]:
                del self._per_address[host]

    def _sweep(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
        now_ms = self._clock.monotonic_ms()
        for connection, moved_ms in list(self.connections.items()):
            if connection.has_moved():
                self.connections[connection] = now_ms
            elif connection.is_inside_frame and now_ms - moved_ms > self.limits.max_half_frame_ms:
                connection.close("half a request came, and then nothing")
            elif 0 <= self.limits.max_idle_ms < now_ms - moved_ms:
                # Below 0, as in Kafka, there is no limit.
                connection.close()


def listen_for_clients(host: str, port: int, *, is_shared: bool) -> socket.socket:
    """A socket that clients can connect to; StartupError says why there is none. `is_shared`: other processes may listen there, too."""
    reuse = (socket.SO_REUSEADDR, socket.SO_REUSEPORT) if is_shared else (socket.SO_REUSEADDR,)
    listening = bind_for_clients(host, port, reuse=reuse)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def bind_for_clients(host: str, port: int, *, reuse: Sequence[int]) -> socket.socket:
    """A socket that has the port, and does not listen yet; `reuse`: the options that say who else may have it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise StartupError(f"cannot listen on {host}:{port}: {error.strerror}; give an address of this machine with --listen") from None
    bound = socket.socket(family, kind, protocol)
    for option in reuse:
        bound.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        reason = HINTS.get(error.errno or 0, f"{error.strerror}")
        raise StartupError(f"cannot listen on {host}:{port}: {reason}") from None
    return bound
