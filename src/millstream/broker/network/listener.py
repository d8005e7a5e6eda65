"""Accepts connections, within limits, and sweeps out those that are idle or stuck."""

import asyncio
import errno
import logging
import socket
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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
    """A listening socket and the connections it has accepted."""

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
        self._socket: socket.socket | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def bind(self, host: str, port: int) -> tuple[str, int]:
        """Take the port; returns the address with the port that was given or picked. Clients that connect wait until `start`."""
        self._socket = _listen(host, port)
        bound_host, bound_port = self._socket.getsockname()[:2]
        return bound_host, bound_port

    def start(self) -> None:
        """Begin to serve."""
        self._accept_again()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def close(self) -> None:
        """Stop listening and close every connection."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for connection in list(self.connections):
            connection.close()

    def renew_sessions(self) -> None:
        """The rules became others: every client passes the gate again, and no lane stays open."""
        for connection in list(self.connections):
            connection.identify(connection.session._replace())

    def _accept_again(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        if self._socket is None:
            return
        for _ in range(ACCEPTS_PER_WAKE):
            try:
                connected, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                logger.error("cannot accept connections for now: %s", error.strerror)
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._socket.fileno())
                loop.call_later(PAUSE_SECONDS, self._accept_again)
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


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise StartupError(f"cannot listen on {host}:{port}: {error.strerror}; give an address of this machine with --listen") from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        hint = "another program uses this port; choose another one with --listen HOST:PORT (port 0 picks a free one)"
        reason = hint if error.errno == errno.EADDRINUSE else f"{error.strerror}"
        raise StartupError(f"cannot listen on {host}:{port}: {reason}") from None
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening
