"""A proxy before every server, and links that can be slow, silent one way or both, or cut.

    clients  ------>  proxy of broker 2  ------>  broker 2        a link goes from who connects to whom it connects to; what it does is
    broker 1 ------>        "                                     asked anew for every piece of data, so a fault hits open connections too
    broker 1 ------>  proxy of a coordination server  ------>  ZooKeeper

A link that is held keeps what it was given and hands it over when it is let go, late, as TCP does when the network comes back; the end of
a connection is held too. A held link accepts connections and says nothing on them. A cut link resets its connections and every new one.
All runs on a loop in a thread of its own; the methods of `Network` may be called from any thread.
"""

import asyncio
import contextlib
import socket
import struct
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tests.cluster.faults.socket_owner import owner_of

T = TypeVar("T")
CLIENTS = "clients"
_CHUNK_BYTES = 65536
_CONTROL_DEADLINE_S = 30.0
_LAST_TURNS = 5


class Link(NamedTuple):
    """Who connects to whom."""

    source: str
    target: str


@dataclass(frozen=True)
class Condition:
    """What a link does."""

    holds_requests: bool = False
    """What the source sends does not arrive."""
    holds_answers: bool = False
    """What the target sends does not arrive."""
    is_cut: bool = False
    delay_s: float = 0.0
    """How long every piece of data is under way; one after the other, so that it also narrows the link."""


GOOD = Condition()
SILENT = Condition(holds_requests=True, holds_answers=True)


class Network:
    """All proxies of a rig and the conditions of their links."""

    def __init__(self) -> None:
        self._conditions: defaultdict[Link, Condition] = defaultdict(Condition)
        self._changed = asyncio.Event()
        self._connections: dict[asyncio.StreamWriter, Link] = {}
        self._names_of_pids: dict[int, str] = {}
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
        """Of all connections, also of those that end or are about to begin."""
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def began(self, pid: int, name: str) -> None:
        """Connections of this process come from `name`; those of all others from the clients."""
        self._call(lambda: self._names_of_pids.__setitem__(pid, name))

    def ended(self, pid: int) -> None:
        """The process is gone."""
        self._call(lambda: self._names_of_pids.pop(pid, None))

    def add(self, name: str, port: int) -> int:
        """A proxy before the server on that port of the loopback; returns its own port."""
        return self._run(self._listen(name, port))

    def set(self, links: Iterable[Link], condition: Condition) -> None:
        """From now on these links are so."""
        chosen = frozenset(links)
        self._call(lambda: self._apply(chosen, condition))

    def heal(self) -> None:
        """All links are good again."""
        self._call(lambda: self._apply(frozenset(self._conditions), GOOD))

    def links(self) -> frozenset[Link]:
        """Those with an open connection."""
        return self._call(lambda: frozenset(self._connections.values()))

    def close(self) -> None:
        """End all connections and the thread."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CONTROL_DEADLINE_S)
        self._loop.close()

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self._run(call())

    def _run(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CONTROL_DEADLINE_S)

    def _apply(self, links: frozenset[Link], condition: Condition) -> None:
        for link in links:
            self._conditions[link] = condition
        self._changed.set()
        self._changed = asyncio.Event()
        if condition.is_cut:
            for writer, link in list(self._connections.items()):
                if link in links:
                    _reset(writer)

    async def _listen(self, name: str, port: int) -> int:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._transports.add(writer.transport)
            task = asyncio.ensure_future(self._serve(name, port, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, name: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            link = Link(self._source_of(writer), name)
        except OSError:  # it has gone again already
            writer.close()
            return
        if self._conditions[link].is_cut:
            _reset(writer)
            return
        connecting = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", port))
        connecting.add_done_callback(self._opened)
        try:
            server_reader, server_writer = await connecting
        except OSError:
            _reset(writer)
            return
        self._connections |= {writer: link, server_writer: link}
        try:
            requests = self._forward(reader, server_writer, lambda: self._conditions[link].holds_requests, link)
            answers = self._forward(server_reader, writer, lambda: self._conditions[link].holds_answers, link)
            await _first_of(requests, answers)
        finally:
            for one in (writer, server_writer):
                self._connections.pop(one, None)
                one.close()

    def _opened(self, connecting: "asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]") -> None:
        """Know the connection, also if whoever waited for it was cancelled at the same moment."""
        if not connecting.cancelled() and connecting.exception() is None:
            self._transports.add(connecting.result()[1].transport)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_held: Callable[[], bool], link: Link) -> None:
        """Hand on whatever comes until one of the ends is gone; a held end of the stream is held like data."""
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if (delay_s := self._conditions[link].delay_s) > 0:
                    await asyncio.sleep(delay_s)
                await self._until(is_held)
                writer.write(data)
                await writer.drain()
        await self._until(is_held)

    async def _until(self, is_held: Callable[[], bool]) -> None:
        while is_held():
            await self._changed.wait()

    def _source_of(self, writer: asyncio.StreamWriter) -> str:
        connection: socket.socket = writer.get_extra_info("socket")
        owner = owner_of(connection.getpeername()[1], connection.getsockname()[1], self._names_of_pids)
        return CLIENTS if owner is None else self._names_of_pids[owner]

    async def _end(self) -> None:
        """End everything; what was being accepted, too: that is over when there is nothing for some turns."""
        for server in self._servers:
            for listening in server.sockets:
                self._loop.remove_reader(listening)  # what asyncio has accepted and not yet looked at is never closed after `Server.close`
        quiet_turns = 0
        while quiet_turns < _LAST_TURNS:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for transport in list(self._transports):
                transport.abort()
            await asyncio.sleep(0)
            quiet_turns = quiet_turns + 1 if len(asyncio.all_tasks()) == 1 else 0
        for server in self._servers:
            server.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End the connection as a crashed host does, not in order."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _first_of(*coroutines: Coroutine[object, object, None]) -> None:
    """Run both until one of them ends."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
