"""A pair of connected sockets: the broker's end does not block, the client's does."""

import socket
from collections.abc import Iterator
from typing import NamedTuple

import pytest


class Ends(NamedTuple):
    """Both ends of one connection."""

    broker: socket.socket
    client: socket.socket


@pytest.fixture
def ends() -> Iterator[Ends]:
    broker, client = socket.socketpair()
    broker.setblocking(False)
    client.settimeout(20)
    yield Ends(broker, client)
    broker.close()
    client.close()
