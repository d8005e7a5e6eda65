"""Which process of this machine opened a connection: by the socket's inode in /proc, so that a proxy can distinguish brokers from clients.

Works for every kind of broker, because nothing is asked of the one who connects: no client id, no address of its own.
"""

import os
from collections.abc import Iterable
from pathlib import Path


def owner_of(client_port: int, server_port: int, pids: Iterable[int]) -> int | None:
    """The one of `pids` that holds the client's end of a connection on the loopback, or None."""
    inode = _inode_of(client_port, server_port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    return next((pid for pid in pids if _has_open(pid, wanted)), None)


def _inode_of(local_port: int, remote_port: int) -> str | None:
    # Java's sockets are IPv6 ones, also on 127.0.0.1.
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(f":{local_port:04X}") and fields[2].endswith(f":{remote_port:04X}"):
                return fields[9]
    return None


def _has_open(pid: int, wanted: str) -> bool:
    try:
        handles = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(_link_of(pid, handle) == wanted for handle in handles)


def _link_of(pid: int, handle: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{handle}")
    except OSError:
        return ""
