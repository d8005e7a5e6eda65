"""A registry beside a broker, started by its first request (`socket_activation`): one that is not used costs no second process, no topic.

The work of the registry (parsing, comparing, HTTP) is Python and would hold up the clients of the broker if it ran on the broker's event
loop or in a thread beside it; in a process of its own it takes the other core. See ADR 0014.
"""

import errno
import logging
import socket
from typing import Final

from millstream.address import WILDCARDS, Address
from millstream.errors import StartupError
from millstream.registry.socket_activation import SocketActivation, listen

logger = logging.getLogger(__name__)

PROCESS: Final = ("-P", "-m", "millstream.registry.process")


def bind(host: str, port: int, *, is_required: bool) -> socket.socket:
    """A listening socket; a port that is taken is an error if it was asked for, and otherwise replaced by a free one."""
    try:
        return listen(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or is_required:
            reason = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                reason = "another program uses this port, perhaps the registry that `millstream serve` has beside it"
            raise StartupError(f"the registry cannot listen on {host}:{port}: {reason}; choose another address") from None
    return listen(host, 0)


def warn_if_elsewhere(port: int, found: Address) -> None:
    """Say that the port was taken: clients that are not given the address would talk to whatever registry is at the usual one.

    When the broker has started: one that does not has a better reason, and that one alone is worth reading.
    """
    if port not in (0, found.port):
        logger.warning("port %d is taken, so the registry is at %s: give clients that address (--url, MILLSTREAM_REGISTRY)", port, found)


def reachable_url(host: str, port: int) -> str:
    """Where other instances reach a registry that listens there: with a wildcard, by the name of this machine."""
    return f"http://{Address(socket.gethostname() if host in WILDCARDS else host, port)}"


class RegistryActivation(SocketActivation):
    """Waits on the socket and runs the registry: `async with RegistryActivation(listener, broker=...)`."""

    name = "registry"

    def __init__(
        self,
        listener: socket.socket,
        *,
        broker: tuple[str, int],
        log_level: str = "info",
        log_format: str = "text",
        pause_s: float = 1.0,
    ) -> None:
        super().__init__(listener, pause_s=pause_s)
        self._broker = broker
        self._log_flags = ["--log-level", log_level, "--log-format", log_format]

    def arguments(self) -> list[str]:
        """The process, where it listens, and where its broker is."""
        brokers = str(Address(*self._broker).on_this_machine)
        places = ["--brokers", brokers, "--socket", str(self._listener.fileno()), "--url", reachable_url(*self.address)]
        return [*PROCESS, *places, *self._log_flags]
