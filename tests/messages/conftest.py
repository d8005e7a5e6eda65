"""Fixtures for the messages that people get: the `millstream` command, and one broker with all that it can have beside it."""

import socket
from collections.abc import Iterator

import pytest

from millstream.testing import Broker
from tests.unit.cli.conftest import millstream

__all__ = ["millstream", "served", "unresolved"]


@pytest.fixture(scope="session")
def unresolved() -> str:
    """What the system says of a name that does not exist; without a network it is something else."""
    with pytest.raises(socket.gaierror) as failure:
        socket.getaddrinfo("nosuch.invalid", 1)
    return str(failure.value.strerror)


@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    """A broker with a registry; its coordination listens as well."""
    with Broker(registry=True) as broker:
        yield broker
