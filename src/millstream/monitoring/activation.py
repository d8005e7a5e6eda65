"""The metrics of a broker, published by a process beside it that the first request starts (`registry.socket_activation`).

While the child runs the broker hands it a sample from time to time: in parts, between which clients are served, and through a pipe whose
reader may be slow: then the next sample waits, not the broker. Writing text, compressing it and computing lags is the child's work.
"""

import asyncio
import errno
import logging
import socket
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from typing import Final

from millstream.address import Address
from millstream.errors import StartupError
from millstream.registry.socket_activation import SocketActivation, listen

logger = logging.getLogger(__name__)

PROCESS: Final = ("-P", "-m", "millstream.monitoring.process")
INTERVAL_S: Final = 10.0

Parts = Callable[[], AsyncIterator[bytes]]


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; instead of a port that is taken a free one, because a broker is worth more than its metrics."""
    try:
        return listen(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise StartupError(f"the metrics cannot be at {host}:{port}: {error.strerror or error}; choose another address") from None
    return listen(host, 0)


def warn_if_elsewhere(port: int, found: Address) -> None:
    """Say that the port was taken; when the broker has started, because one that does not has a better reason."""
    if port not in (0, found.port):
        logger.warning("port %d is taken, so the metrics are at %s: scrape it there, or choose a port with --metrics", port, found)


class MetricsActivation(SocketActivation):
    """Waits on the socket and runs the child: `async with MetricsActivation(listener, server.sample, broker=...)`."""

    name = "process with the metrics"

    def __init__(
        self,
        listener: socket.socket,
        parts: Parts,
        *,
        broker: tuple[str, int],
        is_of_several: bool = False,
        interval_s: float = INTERVAL_S,
        log_level: str = "info",
        log_format: str = "text",
    ) -> None:
        super().__init__(listener)
        self._parts = parts
        self._broker = broker
        self._flags = ["--several"] if is_of_several else []
        self._interval_s = interval_s
        self._log_flags = ["--log-level", log_level, "--log-format", log_format]

    def arguments(self) -> list[str]:
        """The process, where it listens, where its broker is, and how often a sample comes."""
        brokers = str(Address(*self._broker).on_this_machine)
        interval = ["--interval", str(self._interval_s)]
        return [*PROCESS, "--brokers", brokers, "--socket", str(self._listener.fileno()), *interval, *self._flags, *self._log_flags]

    async def attend(self, process: Process) -> None:
        """Write samples until the child is gone."""
        loop, pipe = asyncio.get_running_loop(), process.stdin
        assert pipe is not None
        try:
            while True:
                due = loop.time() + self._interval_s
                async for part in self._parts():
                    pipe.write(part)
                    await pipe.drain()
                await asyncio.sleep(due - loop.time())
        except (BrokenPipeError, ConnectionResetError):
            return
