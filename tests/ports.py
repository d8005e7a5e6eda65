"""Ports of the loopback for servers of tests and benchmarks."""

import socket


def free_port() -> int:
    """One that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
