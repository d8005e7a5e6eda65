"""ZooKeeper's four-letter words: a human's or a monitor's question on a plain connection, answered in text, then the connection closes."""

from collections.abc import Callable
from typing import NamedTuple

VERSION = "3.9.0-millstream"
"""The ZooKeeper whose behaviour is copied; clients parse the numbers."""


class ServerStatus(NamedTuple):
    """What the words report of the server."""

    port: int
    last_zxid: int
    connections: tuple[str, ...]
    received: int
    sent: int
    node_count: int
    watch_count: int
    ephemeral_count: int
    session_count: int
    is_online: bool


def answer(word: bytes, status: ServerStatus) -> str | None:
    """The text for a word, or None when it is none of them."""
    writer = _WORDS.get(word)
    return None if writer is None else writer(status)


def _srvr(status: ServerStatus) -> str:
    return (
        f"Zookeeper version: {VERSION}\n"
        f"Latency min/avg/max: 0/0.0/0\n"
        f"Received: {status.received}\n"
        f"Sent: {status.sent}\n"
        f"Connections: {len(status.connections)}\n"
        f"Outstanding: 0\n"
        f"Zxid: {status.last_zxid:#x}\n"
        f"Mode: standalone\n"
        f"Node count: {status.node_count}\n"
    )


def _stat(status: ServerStatus) -> str:
    first, _, rest = _srvr(status).partition("\n")
    return f"{first}\nClients:\n{_cons(status)}\n{rest}"


def _cons(status: ServerStatus) -> str:
    return "".join([f" /{connection}\n" for connection in status.connections])


def _mntr(status: ServerStatus) -> str:
    values = {
        "zk_version": VERSION,
        "zk_server_state": "standalone",
        "zk_packets_received": status.received,
        "zk_packets_sent": status.sent,
        "zk_num_alive_connections": len(status.connections),
        "zk_znode_count": status.node_count,
        "zk_watch_count": status.watch_count,
        "zk_ephemerals_count": status.ephemeral_count,
        "zk_global_sessions": status.session_count,
    }
    return "".join([f"{name}\t{value}\n" for name, value in values.items()])


_WORDS: dict[bytes, Callable[[ServerStatus], str]] = {
    b"ruok": lambda status: "imok" if status.is_online else "the journal cannot be written",
    b"srvr": _srvr,
    b"stat": _stat,
    b"cons": _cons,
    b"mntr": _mntr,
    b"isro": lambda _: "rw",
    b"conf": lambda status: f"clientPort={status.port}\nserverId=0\n",
    b"envi": lambda _: f"Environment:\nzookeeper.version={VERSION}\n",
}
