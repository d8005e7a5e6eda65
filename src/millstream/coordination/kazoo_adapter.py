"""Coordination in a real ZooKeeper: the one module that imports kazoo. Loaded only where a cluster is asked for.

kazoo works in threads of its own, Millstream on an event loop. The rules that keep the two apart:

- only kazoo's `*_async` calls are made here, and what links to them does nothing but `call_soon_threadsafe`: a synchronous kazoo call on
  the loop would wait for threads that wait for the loop, and a callback that blocks stops kazoo's only completion thread;
- while the connection is suspended, calls fail at once with `ConnectionLost` instead of waiting in kazoo's queue for an unknown time;
- kazoo's threads need the GIL beside a busy loop, so the interpreter is set to switch more often.

kazoo forgets all watches when the connection drops and gives the watchers "NONE"; the contract of `Coordination` says the same of the
session's state, so those calls are dropped here.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import EventType, KazooState, WatchedEvent

from millstream.coordination.interface import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Operation,
    OperationResult,
    SessionListener,
    SessionState,
    SetData,
    WatchCallback,
    WatchEvent,
    WatchKind,
    ZnodeStat,
)
from millstream.errors import StartupError
from millstream.zookeeper.errors import ERROR_OF_CODE, BadArguments, ConnectionLost, RuntimeInconsistency, ZooKeeperError
from millstream.zookeeper.znode import check_path

_SWITCH_INTERVAL_S = 0.0005
_ROLLED_BACK = 0
_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
_KINDS = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}


class KazooCoordination:
    """A session in a real ZooKeeper; implements `Coordination`."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._state = SessionState.LOST
        self._listeners: list[SessionListener] = []
        self._connected = asyncio.Event()
        client.add_listener(self._on_kazoo_state)

    @classmethod
    async def connect(cls, hosts: str, *, session_timeout_ms: int = 18_000, connect_timeout_ms: int = 30_000) -> Self:
        """Connect to `host:port,host:port/chroot` and create the chroot; `StartupError` when no server answers in time."""
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL_S))
        coordination = cls(KazooClient(hosts=hosts, timeout=session_timeout_ms / 1000))
        coordination._client.start_async()
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                await coordination._connected.wait()
                await coordination._make_chroot()
        except TimeoutError as error:
            await coordination.close()
            raise StartupError(f"no ZooKeeper answers at {hosts}; is it running, and is the address right?") from error
        except BaseException:
            await coordination.close()
            raise
        return coordination

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return 0 if client_id is None else int(client_id[0] or 0)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, make_parents: bool = False
    ) -> str:
        check_path(path + "0" if sequential else path)
        created = await self._ask(
            lambda: self._client.create_async(path, data, ephemeral=ephemeral, sequence=sequential, makepath=make_parents)
        )
        return str(created)

    async def get(self, path: str, *, watch: WatchCallback | None = None) -> tuple[bytes, ZnodeStat]:
        check_path(path)
        data, stat = await self._ask(lambda: self._client.get_async(path, self._watcher(watch)))
        return data or b"", ZnodeStat(*stat)

    async def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> ZnodeStat:
        check_path(path)
        return ZnodeStat(*await self._ask(lambda: self._client.set_async(path, data, version)))

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        check_path(path)
        await self._ask(lambda: self._client.delete_async(path, version))

    async def exists(self, path: str, *, watch: WatchCallback | None = None) -> ZnodeStat | None:
        check_path(path)
        stat = await self._ask(lambda: self._client.exists_async(path, self._watcher(watch)))
        return None if stat is None else ZnodeStat(*stat)

    async def children(self, path: str, *, watch: WatchCallback | None = None) -> list[str]:
        check_path(path)
        return sorted(await self._ask(lambda: self._client.get_children_async(path, self._watcher(watch))))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if not operations:
            return []
        transaction = self._client.transaction()
        for operation in operations:
            _add(transaction, operation)
        results = await self._ask(transaction.commit_async)
        for index, result in enumerate(results):
            if isinstance(result, KazooException) and getattr(result, "code", None) not in (_ROLLED_BACK, RuntimeInconsistency.code):
                error = _translate(result)
                error.operation_index = index
                raise error
        return [_result(operation, result) for operation, result in zip(operations, results, strict=True)]

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        await asyncio.to_thread(self._stop)

    async def _make_chroot(self) -> None:
        # Under its chroot kazoo would create the last level only, so it is lifted until all of them are there.
        chroot, self._client.chroot = self._client.chroot, ""
        try:
            if chroot:
                await self._ask(lambda: self._client.ensure_path_async(chroot))
        finally:
            self._client.chroot = chroot

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()

    async def _ask(self, start: Callable[[], Any]) -> Any:  # kazoo has no types
        """Start a kazoo call and wait for its result on the loop."""
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost("the connection to ZooKeeper is interrupted")
        future: asyncio.Future[Any] = self._loop.create_future()

        def deliver(result: Any) -> None:
            if future.done():
                return
            if result.exception is not None:
                future.set_exception(_translate(result.exception))
            else:
                future.set_result(result.value)

        start().rawlink(lambda result: self._on_loop(deliver, result))
        return await future

    def _watcher(self, callback: WatchCallback | None) -> Callable[[WatchedEvent], None] | None:
        if callback is None:
            return None

        def watcher(event: WatchedEvent) -> None:
            kind = _KINDS.get(event.type)
            if kind is not None:
                self._on_loop(callback, WatchEvent(kind, event.path))

        return watcher

    def _on_kazoo_state(self, state: str) -> None:
        self._on_loop(self._change_state, _STATES[state])

    def _change_state(self, state: SessionState) -> None:
        self._state = state
        if state is SessionState.CONNECTED:
            self._connected.set()
        for listener in self._listeners:
            listener(state)

    def _on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)


def _add(transaction: Any, operation: Operation) -> None:
    match operation:
        case Create(path, data, ephemeral, sequential):
            check_path(path + "0" if sequential else path)
            transaction.create(path, data or b"", ephemeral=ephemeral, sequence=sequential)
        case SetData(path, data, version):
            check_path(path)
            transaction.set_data(path, data or b"", version)
        case Delete(path, version):
            check_path(path)
            transaction.delete(path, version)
        case Check(path, version):
            check_path(path)
            transaction.check(path, version)


def _result(operation: Operation, result: Any) -> OperationResult:
    match operation:
        case Create():
            return str(result)
        case SetData():
            return ZnodeStat(*result)
    return None


def _translate(error: BaseException) -> ZooKeeperError:
    code = getattr(error, "code", None)
    if isinstance(code, int) and code in ERROR_OF_CODE:
        return ERROR_OF_CODE[code](str(error) or type(error).__name__)
    if isinstance(error, ValueError | TypeError):
        return BadArguments(str(error))
    return ConnectionLost(str(error) or type(error).__name__)
