"""Names of servers that have no address: kazoo leaves them out without a word, and nothing would say why no server answers."""

import socket
from collections.abc import Iterable


def unresolved_names(servers: Iterable[tuple[str, int]]) -> str | None:
    """Which names cannot be resolved, if that is so for all of the servers; it may take seconds, so it is for a thread."""
    failures: dict[str, str] = {}
    for host, port in servers:
        try:
            socket.getaddrinfo(host, port)
        except OSError as error:
            failures[host] = error.strerror or str(error)
        else:
            return None
    return "; ".join(f"the name {host} cannot be resolved: {reason}" for host, reason in failures.items())
