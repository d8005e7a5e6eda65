"""The ports of the brokers of one machine: one that all listen on, for clients that look for the cluster, and one of each broker's own.

The parent takes all of them and listens on none, so that a broker that is started again finds its own as it was. With SO_REUSEPORT, which
is set when the port is taken, the children listen there: it is theirs alone, because the kernel lets only sockets of the same user in that
have it set, too.

The kernel lets a program with SO_REUSEADDR, as servers have it, listen on a port that others with it have and on which none listens. So the
parent does without it. Then connections that were closed a moment ago (TIME_WAIT) are in its way after a restart: not those of listeners
with SO_REUSEPORT, if it has that from the beginning. Only for those of others, of a broker that was alone, it takes SO_REUSEADDR.
"""

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, Self

from millstream.address import Address
from millstream.broker.network.listener import bind_for_clients, listen_for_clients
from millstream.errors import StartupError

LARGEST_PORT: Final = 65_535


class Ports:
    """The ports that are held, until `close`."""

    def __init__(self, bootstrap: socket.socket, own: Sequence[socket.socket]) -> None:
        self._held = [bootstrap, *own]
        self.bootstrap = _address(bootstrap)
        self.own = [_address(held) for held in own]

    @classmethod
    def take(cls, host: str, port: int, *, processes: int, is_next_required: bool) -> Self:
        """The port that was asked for (0: a free one), and those that follow it; StartupError if one is taken.

        Instead of a following one that is taken another is picked, unless `is_next_required`: clients were promised those.
        """
        with ExitStack() as if_failed:
            bootstrap = if_failed.enter_context(_hold(host, port))
            first = _address(bootstrap).port + 1
            wanted = range(first, first + processes)
            own = [if_failed.enter_context(_hold_next(host, each, is_required=is_next_required)) for each in wanted]
            if_failed.pop_all()
        return cls(bootstrap, own)

    def close(self) -> None:
        """Let go of all."""
        for held in self._held:
            held.close()


def _hold_next(host: str, port: int, *, is_required: bool) -> socket.socket:
    try:
        if port > LARGEST_PORT:
            raise StartupError(f"cannot listen on {host}:{port}: ports end with {LARGEST_PORT}; choose a smaller one with --listen")
        return _hold(host, port)
    except StartupError:
        if is_required:
            raise
        return _hold(host, 0)


def _hold(host: str, port: int) -> socket.socket:
    try:
        held = bind_for_clients(host, port, reuse=())
    except StartupError:
        # Raises if it is more than closed connections that have it.
        listen_for_clients(host, port, is_shared=False).close()
        held = _hold_beside_closed_connections(host, port)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return held


def _hold_beside_closed_connections(host: str, port: int) -> socket.socket:
    try:
        return bind_for_clients(host, port, reuse=[socket.SO_REUSEPORT])
    except StartupError:
        return bind_for_clients(host, port, reuse=[socket.SO_REUSEADDR])


def _address(held: socket.socket) -> Address:
    host, port = held.getsockname()[:2]
    return Address(str(host), int(port))
