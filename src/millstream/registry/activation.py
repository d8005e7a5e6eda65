"""A registry beside a broker, started by its first request.

The broker's process binds the registry's port and listens, so that clients can connect from the beginning and the ready line is true; it
does not accept. The first connection starts a child process (`process`) that is given the socket and accepts everything that waits. So a
broker whose registry is not used pays one socket for it: no second process, no topic. A child that ends, for whatever reason, is started
again by the next connection; one that ends at once not before a pause.

The work of the registry (parsing, comparing, HTTP) is Python and would hold up the clients of the broker if it ran on the broker's event
loop or in a thread beside it; in a process of its own it takes the other core. See ADR 0014.
"""

import asyncio
import errno
import logging
import socket
import sys
from asyncio.subprocess import PIPE, Process
from importlib.util import find_spec
from typing import Final, Self

from millstream.address import Address
from millstream.errors import StartupError
from millstream.registry.child import WILDCARDS, end_process

logger = logging.getLogger(__name__)

PROCESS: Final = ("-P", "-m", "millstream.registry.process")
NEEDED: Final = ("starlette", "uvicorn")
INSTALL: Final = "pip install '.[registry]' in a checkout of Millstream"
BACKLOG: Final = 128
SHORT_LIFE_SECONDS: Final = 5.0


def missing_packages() -> list[str]:
    """What a registry needs and is not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def bind(host: str, port: int, *, is_required: bool) -> socket.socket:
    """A listening socket; a port that is taken is an error if it was asked for, and otherwise replaced by a free one."""
    try:
        return _listen(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or is_required:
            reason = f"{error.strerror or error}; choose another address"
            raise StartupError(f"the registry cannot listen on {host}:{port}: {reason}") from None
    listener = _listen(host, 0)
    # Said aloud, because clients that are not given the address would talk to whatever registry is at the usual one.
    found = Address(host, listener.getsockname()[1])
    logger.warning("port %d is taken, so the registry is at %s: give clients that address (--url, MILLSTREAM_REGISTRY)", port, found)
    return listener


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def reachable_url(host: str, port: int) -> str:
    """Where other instances reach a registry that listens there: with a wildcard, by the name of this machine."""
    return f"http://{Address(socket.gethostname() if host in WILDCARDS else host, port)}"


class RegistryActivation:
    """Waits on the socket and runs the child: `async with RegistryActivation(listener, broker=...)`; closes the socket in the end."""

    def __init__(self, listener: socket.socket, *, broker: tuple[str, int], log_level: str = "info", pause_s: float = 1.0) -> None:
        self._listener = listener
        self._broker = broker
        self._log_level = log_level
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None
        self.process: Process | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where the registry can be reached."""
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    async def __aenter__(self) -> Self:
        self._wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._listener.close()

    def _wait(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._wake)

    def _wake(self) -> None:
        # The child accepts; until it is gone the socket is none of our business.
        asyncio.get_running_loop().remove_reader(self._listener)
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, *PROCESS, *self._arguments(), stdin=PIPE, pass_fds=(self._listener.fileno(),)
            )
        except OSError as error:
            logger.error("the registry cannot be started: %s", error)
        else:
            try:
                code = await self.process.wait()
            except asyncio.CancelledError:
                await end_process(self.process)
                raise
            logger.warning("the registry ended with %d; the next request starts it again", code)
        if loop.time() - started < SHORT_LIFE_SECONDS:
            await asyncio.sleep(self._pause_s)
        self._wait()

    def _arguments(self) -> list[str]:
        host, port = self._broker
        brokers = str(Address(WILDCARDS.get(host, host), port))
        url = reachable_url(*self.address)
        return ["--brokers", brokers, "--socket", str(self._listener.fileno()), "--url", url, "--log-level", self._log_level]
