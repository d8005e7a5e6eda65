"""Serves an embedded tree to other processes in ZooKeeper's client protocol: kazoo, the paper's consumers, zkCli.

It is meant for loopback on one machine: one server, no ensemble, no TLS, no SASL; access lists of the schemes world, digest and ip are
obeyed. The server does not own the tree: closing it drops the connections and leaves the sessions, as a ZooKeeper that restarts would.
"""

import asyncio
from typing import TYPE_CHECKING

from millstream.zookeeper.errors import ConnectionLost
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.tree import Session

if TYPE_CHECKING:
    from millstream.zookeeper.connection import Connection
    from millstream.zookeeper.four_letter_words import ServerStatus

MEBIBYTE = 1024 * 1024


class CoordinationServer:
    """Listens, and knows which connection speaks for which session."""

    def __init__(
        self,
        keeper: TreeKeeper,
        *,
        min_session_timeout_ms: int = 500,
        max_session_timeout_ms: int = 60_000,
        max_frame_bytes: int = MEBIBYTE,
        max_connections: int = 1_000,
        max_sessions: int = 10_000,
    ) -> None:
        self.keeper = keeper
        self.max_frame_bytes = max_frame_bytes
        self.received = 0
        self.sent = 0
        self._session_timeouts_ms = (min_session_timeout_ms, max_session_timeout_ms)
        self._max_connections = max_connections
        self._max_sessions = max_sessions
        self._connections: set[Connection] = set()
        self._by_session: dict[int, Connection] = {}
        self._server: asyncio.Server | None = None
        self._port = 0
        keeper.on_expiry(self._drop_session)
        keeper.durability.on_failure(self._drop_all)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen, and return the port; OSError if it is taken."""
        self._server = await asyncio.get_running_loop().create_server(self._connect, host, port)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self._port

    async def close(self) -> None:
        """Stop listening and drop the connections; the sessions stay."""
        if self._server is not None:
            self._server.close()
            self._drop_all()
            await self._server.wait_closed()
            self._server = None

    def _connect(self) -> "Connection":
        from millstream.zookeeper.connection import Connection  # most brokers have no such client: not loaded before the first one

        return Connection(self)

    # What connections call.

    def admit(self, connection: "Connection") -> bool:
        """Take a connection in, unless there are too many."""
        if len(self._connections) >= self._max_connections:
            return False
        self._connections.add(connection)
        return True

    def attach(self, connection: "Connection") -> None:
        """The connection speaks for its session from now on; one that did before is dropped."""
        earlier = self._by_session.get(connection.session_id)
        self._by_session[connection.session_id] = connection
        if earlier is not None:
            earlier.abort()

    def forget(self, connection: "Connection") -> None:
        """The connection is gone."""
        self._connections.discard(connection)
        if self._by_session.get(connection.session_id) is connection:
            del self._by_session[connection.session_id]

    def open_session(self, requested_timeout_ms: int) -> Session:
        """A new session for a client, unless too many wait for their timeouts."""
        if len(self.keeper.tree.sessions) >= self._max_sessions:
            raise ConnectionLost(f"there are {self._max_sessions} sessions already")
        return self.keeper.open_session(self.negotiate(requested_timeout_ms))

    def negotiate(self, requested_ms: int) -> int:
        """The session timeout a client gets."""
        shortest, longest = self._session_timeouts_ms
        return min(max(requested_ms, shortest), longest)

    def answer_word(self, word: bytes) -> str | None:
        """The answer to a four-letter word, or None when these bytes are none."""
        from millstream.zookeeper.four_letter_words import answer

        return answer(word, self._status()) if word.isalpha() else None

    def _status(self) -> "ServerStatus":
        from millstream.zookeeper.four_letter_words import ServerStatus

        tree = self.keeper.tree
        return ServerStatus(
            port=self._port,
            last_zxid=tree.last_zxid,
            connections=tuple(sorted(connection.peer for connection in self._connections)),
            received=self.received,
            sent=self.sent,
            node_count=len(tree.nodes),
            watch_count=len(self.keeper.watches),
            ephemeral_count=sum(len(session.ephemerals) for session in tree.sessions.values()),
            session_count=len(tree.sessions),
            is_online=self.keeper.durability.failure is None,
        )

    def _drop_session(self, session_id: int) -> None:
        connection = self._by_session.get(session_id)
        if connection is not None:
            connection.abort()

    def _drop_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()
