"""Ports of the loopback for servers of tests and benchmarks."""

import random
import socket

FIRST, LAST = 15_000, 30_000
"""Below those that the kernel gives to clients: a port that is free now is not taken by a connection before its server has started."""
_random = random.SystemRandom()


def free_port() -> int:
    """One that is free at the moment."""
    while True:
        port = _random.randint(FIRST, LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
