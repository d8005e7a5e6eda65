"""kazoo's client as `kazoo_adapter` needs it: it tries for ever, and no server that keeps silent costs it the session.

What kazoo has no option for is put around its private methods here, and nowhere else.
"""

import logging
import select
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Auth
from kazoo.protocol.states import KazooState

logger = logging.getLogger(__name__)
# At its level DEBUG, which an operator may set at any time, kazoo logs each request, the credentials among them.
logger.addFilter(lambda record: not any(isinstance(argument, Auth) for argument in record.args or ()))

_RETRY: Final = {"max_tries": -1, "delay": 0.05, "max_delay": 0.4}
"""Of the connection: for ever, and back within a second after ZooKeeper is."""
_SHORTEST_GREETING_S: Final = 2.0
_MILLISECONDS: Final = 1000


def make_client(
    hosts: str,
    *,
    session_timeout_ms: float,
    credentials: str | None,
    on_state: Callable[[KazooState], None],
    on_negotiated: Callable[[float], None],
) -> KazooClient:
    """A client that is not started; the callbacks are called in threads of kazoo's, the second with the milliseconds given."""
    if not logger.level:
        logger.setLevel(logging.ERROR if logger.getEffectiveLevel() > logging.DEBUG else logging.INFO)
    session_s = session_timeout_ms / _MILLISECONDS
    client = KazooClient(
        hosts=hosts,
        timeout=session_s,
        handler=_Handler(),
        connection_retry=dict(_RETRY),
        auth_data=None if credentials is None else [("digest", credentials)],
        logger=logger,
    )
    client.add_listener(on_state)
    client.handler.connect_timeout_s = session_s / (2 * len(client.hosts))
    connect = client._connection._connect

    def connect_and_note(*address: object) -> tuple[float, float]:
        # kazoo keeps what was negotiated to itself, but for this: it waits for an answer for two thirds of it.
        read_timeout_ms, connect_timeout_ms = connect(*address)
        on_negotiated(read_timeout_ms * 3 / 2)
        return read_timeout_ms, connect_timeout_ms

    client._connection._connect = connect_and_note
    invoke, patience_s = client._connection._invoke, greeting_s(session_s, len(client.hosts))
    client._connection._invoke = lambda timeout, request, xid=None: invoke(min(timeout, patience_s), request, xid)
    return client


def greeting_s(session_s: float, hosts: int) -> float:
    """How long a server is given to answer to the beginning of a connection; kazoo gives it the whole session.

    One that starts accepts connections before it can serve them, and now and then forgets such a one: it would neither answer nor close it
    until the session is over.
    """
    return min(session_s / hosts, max(_SHORTEST_GREETING_S, session_s / 6))


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's threads; a server that does not even refuse is given up in time for the others to be tried within the session."""

    connect_timeout_s: float

    def select(self, readers: Any, writers: Any, _others: Any, timeout: float | None = None) -> tuple[list[Any], list[Any], list[Any]]:
        """As `select.select`, for any descriptor; kazoo calls it five times for a request, and its own makes an epoll each time."""
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(None if timeout is None else max(timeout, 0) * _MILLISECONDS)}
        return [one for one in readers if one.fileno() in ready], [one for one in writers if one.fileno() in ready], []

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        options["timeout"] = min(options.get("timeout") or self.connect_timeout_s, self.connect_timeout_s)
        return super().create_connection(*arguments, **options)
