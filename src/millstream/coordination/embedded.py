"""Coordination inside the process: direct calls on a tree that this broker keeps itself. For one machine.

The broker's own session has no timeout: it lives as long as the process. The session of its previous life is closed when it opens again, so
after a `kill -9` nothing waits for a timeout. Watches are delivered by `call_soon`: the change that fires them is finished first.

    coordination = await EmbeddedCoordination.open(directory, files=Files(), clock=SystemClock(), broker_session_name="broker-1")
    server = CoordinationServer(coordination.keeper)          # other processes, in ZooKeeper's protocol
"""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from millstream.clock import Clock
from millstream.coordination.interface import (
    ANY_VERSION,
    Create,
    Delete,
    Operation,
    OperationResult,
    SessionListener,
    SessionState,
    SetData,
    WatchCallback,
    WatchEvent,
    ZnodeStat,
)
from millstream.files import Files
from millstream.zookeeper.acl import Acl
from millstream.zookeeper.errors import NoNode, SessionExpired, TreeOffline
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.znode import Znode, check_path, parent_of


class EmbeddedCoordination:
    """A session in a tree of this process; implements `Coordination`."""

    def __init__(self, keeper: TreeKeeper, *, broker_session_name: str, is_owner: bool = False) -> None:
        self.keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._is_owner = is_owner
        self._is_closed = False
        self._listeners: list[SessionListener] = []
        self._session = keeper.open_session(0, name=broker_session_name)
        keeper.durability.on_failure(self._on_failure)

    @classmethod
    async def open(cls, directory: Path, *, files: Files, clock: Clock, broker_session_name: str, is_synced: bool = True) -> Self:
        """Recover the tree in `directory` and begin a session; `is_synced=False` gives up durability over power cuts."""
        keeper = await TreeKeeper.open(directory, files=files, clock=clock, is_synced=is_synced)
        try:
            coordination = cls(keeper, broker_session_name=broker_session_name, is_owner=True)
            await keeper.durability.wait()
        except BaseException:
            await keeper.close()
            raise
        return coordination

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def has_lease(self) -> bool:
        return not self._is_closed and self.keeper.durability.failure is None

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, make_parents: bool = False
    ) -> str:
        check_path(path + "0" if sequential else path)
        operation = Create(path, data, ephemeral, sequential)
        try:
            created = self._execute(operation)[0]
        except NoNode:
            if not make_parents:
                raise
            self._make_parents(path)
            created = self._execute(operation)[0]
        await self.keeper.durability.wait()
        return created

    async def get(self, path: str, *, watch: WatchCallback | None = None) -> tuple[bytes, ZnodeStat]:
        node = self._node(path)
        if node is None:
            raise NoNode(path)
        if watch is not None:
            self.keeper.watches.add_data_watch(path, _Registration(watch, self))
        return node.data or b"", node.stat()

    async def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> ZnodeStat:
        stat = self._execute(SetData(path, data, version))[1]
        assert stat is not None
        await self.keeper.durability.wait()
        return stat

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        check_path(path)
        self._execute(Delete(path, version))
        await self.keeper.durability.wait()

    async def exists(self, path: str, *, watch: WatchCallback | None = None) -> ZnodeStat | None:
        node = self._node(path)
        if watch is not None:
            self.keeper.watches.add_data_watch(path, _Registration(watch, self))
        return None if node is None else node.stat()

    async def children(self, path: str, *, watch: WatchCallback | None = None) -> list[str]:
        node = self._node(path)
        if node is None:
            raise NoNode(path)
        if watch is not None:
            self.keeper.watches.add_child_watch(path, _Registration(watch, self))
        return sorted(node.children)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        self._require_open()
        results = self.keeper.execute(operations, session_id=self.session_id)
        await self.keeper.durability.wait()
        return [path if isinstance(operation, Create) else stat for operation, (path, stat) in zip(operations, results, strict=True)]

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        # A disk that failed has been reported to the listeners; closing has nothing to add.
        with contextlib.suppress(TreeOffline):
            self.keeper.close_session(self.session_id)
            await self.keeper.durability.wait()
        if self._is_owner:
            await self.keeper.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise SessionExpired("this coordination is closed")
        self.keeper.durability.require_online()

    def _node(self, path: str) -> Znode | None:
        self._require_open()
        node = self.keeper.tree.nodes.get(path)
        if node is None:
            check_path(path)
        return node

    def _execute(self, operation: Operation) -> tuple[str, ZnodeStat | None]:
        self._require_open()
        return self.keeper.execute([operation], session_id=self.session_id)[0]

    def _make_parents(self, path: str) -> None:
        parent = parent_of(path)
        missing: list[str] = []
        while parent not in self.keeper.tree.nodes:
            missing.append(parent)
            parent = parent_of(parent)
        for ancestor in reversed(missing):
            self._execute(Create(ancestor))

    def deliver(self, callback: WatchCallback, event: WatchEvent) -> None:
        """Call a watch soon, unless this session is over by now."""
        if not self._is_closed:
            self._loop.call_soon(callback, event)

    def _on_failure(self) -> None:
        for listener in self._listeners:
            self._loop.call_soon(listener, SessionState.LOST)


class _Registration:
    """One registered watch; by its identity, so that the same function registered twice is called twice."""

    __slots__ = ("_callback", "_coordination")

    def __init__(self, callback: WatchCallback, coordination: EmbeddedCoordination) -> None:
        self._callback = callback
        self._coordination = coordination

    def __call__(self, event: WatchEvent, _acl: Acl) -> None:
        self._coordination.deliver(self._callback, event)
