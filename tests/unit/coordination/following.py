"""A watcher on a tree of this process, and what it does."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.coordination.cluster_watcher import ClusterWatcher
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import SessionState
from millstream.coordination.partition_state import PartitionState

LONG_MS = 20_000
TOPIC = TopicState("orders", UUID(int=7), (PartitionState.first((1,)),))
MOVED = PartitionState((1, 2), 2, 1, (2,))


class Follower:
    """A watcher that runs, and what it showed its broker before everybody else."""

    def __init__(self, coordination: EmbeddedCoordination) -> None:
        self.shown: list[ClusterView] = []
        self.has_shown = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.unopened: dict[str, int] = {}
        self.seen_by_clients: list[ClusterView] = []
        self.watcher = ClusterWatcher(
            coordination, on_change=self._take_up, on_shown=self.seen_by_clients.append, unopened=lambda: self.unopened
        )

    async def _take_up(self, view: ClusterView) -> None:
        self.shown.append(view)
        self.has_shown.set()
        await self.gate.wait()

    async def sees(self, topic: str) -> bool:
        return await self.watcher.until(lambda view: topic in view.topics, timeout_ms=LONG_MS)


class Reads:
    """The paths that are read from now on."""

    def __init__(self, coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        for kind in ("get", "children"):
            monkeypatch.setattr(coordination, kind, self._counting(getattr(coordination, kind)))

    def _counting(self, really: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def read(path: str, *, watch: object = None) -> object:
            self.paths.append(path)
            return await really(path, watch=watch)

        return read


def reconnect(coordination: EmbeddedCoordination) -> None:
    for listener in coordination._listeners:
        listener(SessionState.CONNECTED)
