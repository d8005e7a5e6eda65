"""How the client gets a socket to a broker: the one place where TLS and passwords belong.

Whatever opens sockets has the shape of `OpenSocket` and is handed to `Connection` or `Cluster`; what it returns is connected, and wrapped
or authenticated if it has to be. The default is plain TCP without Nagle's delay.
"""

import socket
from collections.abc import Callable

from millstream.address import Address
from millstream.client.errors import unreachable

OpenSocket = Callable[[Address, float], socket.socket]
"""Connect to the address within so many seconds; `BrokerUnavailable` if that cannot be done."""


def open_tcp(address: Address, timeout_s: float) -> socket.socket:
    """A plain TCP connection."""
    try:
        opened = socket.create_connection((address.host, address.port), timeout=timeout_s)
    except OSError as error:
        raise unreachable(address, error) from error
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened
