"""A tree of znodes for brokers in other processes, in a thread of the test: sessions end when the test says so, not after a timeout."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from millstream.clock import SystemClock
from millstream.files import Files
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.server import CoordinationServer

T = TypeVar("T")


class TreeInThread:
    """ZooKeeper's protocol on a free port of the loopback, from `start` to `stop`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tree")

    def start(self) -> None:
        self._thread.start()
        self.port = self._run(self._open)

    def stop(self) -> None:
        self._run(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def content(self, path: str) -> dict[str, object]:
        """The JSON in a znode."""
        found: dict[str, object] = json.loads(self._nodes[path].data or b"{}")
        return found

    def text(self, path: str) -> str:
        """The text in a znode; empty if there is none."""
        node = self._nodes.get(path)
        return "" if node is None else (node.data or b"").decode()

    def czxid(self, path: str) -> str:
        """The transaction that created a znode: the epoch of a broker."""
        node = self._nodes.get(path)
        return "" if node is None else str(node.stat().czxid)

    def version(self, path: str) -> int:
        """The version of a znode."""
        return int(self._nodes[path].stat().version)

    def children(self, path: str) -> list[str]:
        """Names of the children."""
        return sorted(self._nodes[path].children)

    @property
    def paths(self) -> frozenset[str]:
        """Where there are znodes."""
        return frozenset(self._nodes)

    def expire(self, path: str) -> None:
        """End the session that owns an ephemeral znode, as after a timeout."""
        owner = self._nodes[path].stat().ephemeral_owner

        async def end() -> None:
            self._keeper.close_session(owner)

        self._run(end)

    @property
    def _nodes(self) -> dict[str, Any]:
        return self._keeper.tree.nodes

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        async def call() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(20)

    async def _open(self) -> int:
        self._keeper = await TreeKeeper.open(self._directory, files=Files(), clock=SystemClock(), is_synced=False)
        self._server = CoordinationServer(self._keeper)
        return await self._server.start("127.0.0.1", 0)

    async def _close(self) -> None:
        await self._server.close()
        await self._keeper.close()
