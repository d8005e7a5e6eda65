"""A process beside a broker that is started by its first connection.

The broker's process binds the port and listens, so that clients can connect from the beginning and the ready line is true; it does not
accept. The first connection starts a child process that is given the socket and accepts everything that waits. So a broker whose child is
not used pays one socket for it. A child that ends, for whatever reason, is started again by the next connection; one that ends at once
not before a pause, and if it gave up by itself the connections that waited for it are closed: they alone would start it again and again.
"""

import asyncio
import logging
import socket
import sys
from abc import ABC, abstractmethod
from asyncio.subprocess import PIPE, Process
from typing import Final, Self

from millstream.registry.child import end_process

logger = logging.getLogger(__name__)

BACKLOG: Final = 128
SHORT_LIFE_SECONDS: Final = 5.0
START_SECONDS: Final = 60.0
"""A child that gives up within this time has not served anyone, however slow the machine is."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


class SocketActivation(ABC):
    """Waits on the socket and runs the child, in an `async with` block; closes the socket in the end."""

    name: str
    """What is started, for the log."""

    def __init__(self, listener: socket.socket, *, pause_s: float = 1.0) -> None:
        self._listener = listener
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None
        self.process: Process | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where the child can be reached."""
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

    @abstractmethod
    def arguments(self) -> list[str]:
        """What follows `python` on the command line of the child."""

    async def attend(self, process: Process) -> None:  # noqa: B027 -- the registry has nothing to do
        """What the broker does for the child while it runs; by default nothing."""

    async def _accompany(self, process: Process) -> None:
        try:
            await self.attend(process)
            code = await process.wait()
        except asyncio.CancelledError:
            await end_process(process)
            raise
        except Exception:
            # A mistake of ours must not leave a child behind without samples or an end.
            logger.exception("the %s is ended; the next request starts it again", self.name)
            await end_process(process)
        else:
            logger.warning("the %s ended with %d; the next request starts it again", self.name, code)

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
                sys.executable, *self.arguments(), stdin=PIPE, pass_fds=(self._listener.fileno(),)
            )
        except OSError as error:
            logger.error("the %s cannot be started: %s", self.name, error)
            self._refuse_waiting()
        else:
            await self._accompany(self.process)
            if (self.process.returncode or 0) > 0 and loop.time() - started < START_SECONDS:
                self._refuse_waiting()
        if loop.time() - started < SHORT_LIFE_SECONDS:
            await asyncio.sleep(self._pause_s)
        self._wait()

    def _refuse_waiting(self) -> None:
        self._listener.setblocking(False)
        for _ in range(BACKLOG):
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            connected.close()
