"""Ports of the loopback for servers of tests and benchmarks."""

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

FIRST, LAST = 15_000, 30_000
"""Below those that the kernel gives to clients: a port that is free now is not taken by a connection before its server has started."""
_TAKEN = Path(tempfile.gettempdir()) / f"millstream-test-ports-{os.getuid()}"
"""One byte for each port, locked by the process that was given the port, until it ends."""
_random = random.SystemRandom()
_own: set[int] = set()


def free_port() -> int:
    """One that is free, and that no test is given again while this process lives.

    A server that is stopped for a while has to find its port free afterwards, and its clients, which try to reach it, may not find the
    server of another test there: several run at once.
    """
    for port in _random.sample(range(FIRST, LAST), k=LAST - FIRST):
        if port not in _own and _is_free(port) and _is_locked(port):
            _own.add(port)
            return port
    raise AssertionError(f"no port from {FIRST} to {LAST} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _is_locked(port: int) -> bool:
    """Whether this process has the port now."""
    try:
        fcntl.lockf(_descriptor(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@cache
def _descriptor() -> int:
    """One for as long as the process lives: its locks would end with the first that it closes."""
    return os.open(_TAKEN, os.O_RDWR | os.O_CREAT, 0o600)
