"""Coordination in a real ZooKeeper, by kazoo (`kazoo_client`). Loaded only where a cluster is asked for.

kazoo works in threads of its own, Millstream on an event loop. The rules that keep the two apart:

- only kazoo's `*_async` calls are made here, and what links to them does nothing but put a call into the inbox of the loop: a synchronous
  kazoo call on the loop would wait for threads that wait for the loop, and a callback that blocks stops kazoo's only completion thread;
- while the connection is suspended, calls fail at once with `ConnectionLost` instead of waiting in kazoo's queue for an unknown time;
- a bounded number of requests is in kazoo's hands: it is woken through a socket that holds a few hundred bytes, and whoever writes to it
  when it is full waits, which would be the loop. The others wait here, in their order;
- kazoo's threads need the GIL beside a busy loop, so the interpreter is set to switch more often.

kazoo forgets all watches when the connection drops and gives the watchers "NONE"; the contract of `Coordination` says the same of the
session's state, so those calls are dropped here. It tries to connect for ever, and its own log lines, one for every try, are
replaced by one when the connection breaks, one a minute while it is away, and one when it is back (`--log-level debug` shows kazoo's).
"""

import asyncio
import contextlib
import logging
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Self

from kazoo.exceptions import KazooException
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.security import READ_ACL_UNSAFE, make_acl

from millstream.clock import Clock, SystemClock
from millstream.coordination import paths
from millstream.coordination.ensemble.kazoo_client import make_client
from millstream.coordination.ensemble.loop_inbox import LoopInbox
from millstream.coordination.ensemble.unresolved_names import unresolved_names
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
from millstream.coordination.lease import RENEWALS, Lease
from millstream.errors import StartupError
from millstream.zookeeper.errors import (
    ERROR_OF_CODE,
    BadArguments,
    ConnectionLost,
    NoAuth,
    RuntimeInconsistency,
    SessionExpired,
    ZooKeeperError,
)
from millstream.zookeeper.znode import check_path

logger = logging.getLogger(__name__)

MOST_UNDER_WAY: Final = 64
_SWITCH_INTERVAL_S = 0.0005
_SILENCE: Final = 1 / 3
"""Of the session timeout without an answer, after which another server is tried: within the session, and the lease."""
_COMPLAINT_S = 60.0
_FIRST_COMPLAINT_S = 3.0
_INTERRUPTED_S = 0.1
_MILLISECONDS = 1000
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
_NOT_ALLOWED = "ZooKeeper does not allow it: the znodes belong to other credentials; give every broker the same --zookeeper-credentials"

Start = Callable[[], Any]
"""Begins a request of kazoo, which has no types."""


class KazooCoordination:
    """A session in a real ZooKeeper; implements `Coordination`."""

    def __init__(self, hosts: str, *, session_timeout_ms: int, credentials: str | None, clock: Clock) -> None:
        self._hosts = hosts
        self._asked_timeout_ms = session_timeout_ms
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._inbox = LoopInbox()
        self._state = SessionState.LOST
        self._is_closed = False
        self._away_since_ms = clock.monotonic_ms()
        self._listeners: list[SessionListener] = []
        self._connected = asyncio.Event()
        self._lease = Lease(session_timeout_ms)
        self._unanswered_ms: int | None = None
        """When the oldest renewal was sent that has no answer yet."""
        self._session_number = 0
        """Counts sessions, so that what one of them was answered does not count for the next."""
        self._under_way: set[asyncio.Future[Any]] = set()
        self._waiting: deque[tuple[Start, asyncio.Future[Any]]] = deque()
        self._timers: list[asyncio.TimerHandle] = []
        self._beginning_again: asyncio.Task[None] | None = None
        self._acl = None if credentials is None else [make_acl("auth", "", all=True), *READ_ACL_UNSAFE]
        self._client = make_client(
            hosts,
            session_timeout_ms=session_timeout_ms,
            credentials=credentials,
            on_state=lambda state: self._inbox.put(self._change_state, _STATES[state]),
            on_negotiated=lambda timeout_ms: self._inbox.put(self._negotiated, timeout_ms),
        )

    @classmethod
    async def connect(
        cls,
        hosts: str,
        *,
        session_timeout_ms: int = 18_000,
        connect_timeout_ms: int = 30_000,
        credentials: str | None = None,
        clock: Clock | None = None,
        timeout_option: str = "zookeeper.connection.timeout.ms",
    ) -> Self:
        """Connect to `host:port,host:port/chroot` and create the chroot; `StartupError` when no server answers in time.

        With `credentials` (`user:password`) everyone may read what is created here, and only who has the same may change it; what the
        consumers of the paper write to stays open.
        """
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL_S))
        coordination = cls(hosts, session_timeout_ms=session_timeout_ms, credentials=credentials, clock=clock or SystemClock())
        try:
            await coordination._start(connect_timeout_ms, timeout_option)
        except BaseException:
            await coordination.close()
            raise
        return coordination

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return 0 if client_id is None else int(client_id[0] or 0)

    @property
    def has_lease(self) -> bool:
        return self._lease.is_held(self._clock.monotonic_ms())

    @property
    def session_timeout_ms(self) -> float:
        """What was negotiated."""
        return self._lease.timeout_ms

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, make_parents: bool = False
    ) -> str:
        check_path(path + "0" if sequential else path)
        options = {"acl": self._acl_of(path), "ephemeral": ephemeral, "sequence": sequential, "makepath": make_parents}
        return str(await self._ask(lambda: self._client.create_async(path, data, **options)))

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
            self._add(transaction, operation)
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
        self._is_closed = True
        for timer in self._timers:
            timer.cancel()
        self._lease.ended()
        if self._beginning_again is not None:
            await asyncio.wait({self._beginning_again})
        await asyncio.to_thread(self._stop)

    # --- connecting -----------------------------------------------------------------------------------------------------------------------

    async def _start(self, timeout_ms: int, timeout_option: str) -> None:
        patience = f"{timeout_ms / _MILLISECONDS:g} s ({timeout_option})"
        said = ""
        self._client.start_async()
        try:
            async with asyncio.timeout(timeout_ms / _MILLISECONDS):
                while not self._connected.is_set():
                    said = await self._wait_for_connection(patience, said=said)
                await self._begin()
        except TimeoutError:
            reason = await asyncio.to_thread(unresolved_names, self._client.hosts) or "is it running, and is the address right?"
            raise StartupError(f"no ZooKeeper answers at {self._hosts} within {patience}; {reason}") from None
        self._later(self._asked_timeout_ms / RENEWALS / _MILLISECONDS, self._renew)
        self._later(_COMPLAINT_S, self._complain)

    async def _begin(self) -> None:
        """Make sure of the place and of the lease, as soon as the connection holds for so long."""
        while True:
            try:
                await self._make_chroot()
                sent_ms = self._clock.monotonic_ms()
                await self._ask(lambda: self._client.sync_async("/"))
            except ConnectionLost:
                await asyncio.sleep(_INTERRUPTED_S)
            else:
                self._lease.answered(sent_ms)
                return

    async def _wait_for_connection(self, patience: str, *, said: str) -> str:
        """Wait for a while, and then say what is waited for, unless that was said; answers with what has been said."""
        try:
            async with asyncio.timeout(_FIRST_COMPLAINT_S):
                await self._connected.wait()
        except TimeoutError:
            if self._client.client_state == KeeperState.AUTH_FAILED:
                raise StartupError(f"the ZooKeeper at {self._hosts} does not take the credentials: digest authentication is off") from None
            reason = await asyncio.to_thread(unresolved_names, self._client.hosts)
            why = f" ({reason})" if reason else ""
            complaint = f"no ZooKeeper answers at {self._hosts} yet{why}; waiting for it, for {patience} in all"
            if complaint != said:
                logger.warning("%s", complaint)
            return complaint
        return said

    async def _make_chroot(self) -> None:
        # Under its chroot kazoo would create the last level only, so it is lifted until all of them are there.
        chroot, self._client.chroot = self._client.chroot, ""
        try:
            if chroot and await self._ask(lambda: self._client.exists_async(chroot)) is None:
                await self._ask(lambda: self._client.ensure_path_async(chroot, self._acl))
        finally:
            self._client.chroot = chroot

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()

    def _negotiated(self, timeout_ms: float) -> None:
        is_new = timeout_ms != self._lease.timeout_ms
        self._lease.timeout_ms = timeout_ms
        if is_new and timeout_ms != self._asked_timeout_ms:
            limits = "see minSessionTimeout and maxSessionTimeout there"
            logger.warning(
                "ZooKeeper gives sessions of %d ms, not of %d ms (zookeeper.session.timeout.ms): %s",
                timeout_ms,
                self._asked_timeout_ms,
                limits,
            )

    # --- the lease ------------------------------------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        """Ask for something that ZooKeeper's leader takes part in, again and again: kazoo's own pings cannot be seen."""
        self._later(self._lease.timeout_ms / RENEWALS / _MILLISECONDS, self._renew)
        if self._state is SessionState.CONNECTED:
            number, sent_ms = self._session_number, self._clock.monotonic_ms()
            if self._unanswered_ms is not None and sent_ms - self._unanswered_ms >= self._lease.timeout_ms * _SILENCE:
                self._drop_connection()
                return
            self._unanswered_ms = sent_ms if self._unanswered_ms is None else self._unanswered_ms
            self._client.sync_async("/").rawlink(lambda result: self._inbox.put(self._renewed, number, sent_ms, result))
        elif self._has_ended and (self._beginning_again is None or self._beginning_again.done()):
            self._beginning_again = asyncio.create_task(asyncio.to_thread(self._begin_again))

    def _renewed(self, number: int, sent_ms: int, result: Any) -> None:
        self._unanswered_ms = None
        if result.exception is None and number == self._session_number and not self._is_closed:
            self._lease.answered(sent_ms)

    def _drop_connection(self) -> None:
        """Have kazoo try the next server; by itself it takes a connection for alive as long as it can send something every now and then."""
        logger.warning("the ZooKeeper we are connected to is silent; trying the next one of %s", self._hosts)
        with contextlib.suppress(AttributeError, OSError):  # it may be closing it now
            self._client._connection._socket.shutdown(socket.SHUT_RDWR)

    @property
    def _has_ended(self) -> bool:
        """Whether kazoo's thread has ended by itself: after an answer that made no sense, or without digest authentication."""
        return self._client.client_state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED)

    def _begin_again(self) -> None:
        if not self._is_closed:
            self._client.stop()
            self._client.start_async()

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call once, unless this is closed by then."""
        self._timers = [timer for timer in self._timers if not timer.cancelled() and timer.when() > self._loop.time()]
        self._timers.append(self._loop.call_later(seconds, callback))

    def _complain(self) -> None:
        self._later(_COMPLAINT_S, self._complain)
        if self._state is not SessionState.CONNECTED:
            away_s = (self._clock.monotonic_ms() - self._away_since_ms) / _MILLISECONDS
            logger.warning("no ZooKeeper answers at %s, for %d s now; trying again all the time", self._hosts, away_s)

    # --- requests -------------------------------------------------------------------------------------------------------------------------

    async def _ask(self, start: Start) -> Any:
        """Start a request of kazoo, as soon as there are not too many, and wait for its result on the loop."""
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost("the connection to ZooKeeper is interrupted")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((start, future))
        self._send_waiting()
        return await future

    def _send_waiting(self) -> None:
        while self._waiting and len(self._under_way) < MOST_UNDER_WAY:
            start, future = self._waiting.popleft()
            if future.done():
                continue
            try:
                request = start()
            except (TypeError, ValueError, KazooException) as error:
                future.set_exception(_translate(error))
                continue
            self._under_way.add(future)
            request.rawlink(partial(self._inbox.put, self._answered, future))

    def _answered(self, future: asyncio.Future[Any], result: Any) -> None:
        self._under_way.discard(future)
        error = None if result.exception is None else _translate(result.exception)
        if not future.done():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result.value)
        if isinstance(error, ConnectionLost | SessionExpired):
            self._fail_waiting()  # kazoo says so before it says that the connection is broken
        else:
            self._send_waiting()

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        _fail(future for _, future in waiting)

    def _watcher(self, callback: WatchCallback | None) -> Callable[[WatchedEvent], None] | None:
        if callback is None:
            return None

        def watcher(event: WatchedEvent) -> None:
            kind = _KINDS.get(event.type)
            if kind is not None:
                self._inbox.put(callback, WatchEvent(kind, event.path))

        return watcher

    def _change_state(self, state: SessionState) -> None:
        former, self._state = self._state, state
        self._unanswered_ms = None
        if state is SessionState.CONNECTED:
            if self._connected.is_set():
                away_s = (self._clock.monotonic_ms() - self._away_since_ms) / _MILLISECONDS
                logger.info("ZooKeeper answers again, after %.1f s", away_s)
            self._connected.set()
        elif not self._is_closed:
            if former is SessionState.CONNECTED:
                self._away_since_ms = self._clock.monotonic_ms()
                logger.warning("the connection to ZooKeeper at %s is interrupted; trying again", self._hosts)
            if state is SessionState.LOST:
                logger.warning("the session in ZooKeeper is over, and its ephemeral znodes are gone; the next one begins")
        if state is not SessionState.CONNECTED:
            self._fail_waiting()
            # kazoo has an answer to what it has sent, not to what is handed to it in the moment in which the connection breaks: that waits
            # for the next one, and may then be done after all, or is forgotten with the session.
            _fail(self._under_way)
            self._under_way.clear()
        if state is SessionState.LOST:
            self._lease.ended()
            self._session_number += 1
        for listener in self._listeners:
            listener(state)

    def _acl_of(self, path: str) -> Any:
        """Who may do what with a znode that is created here; None for the default of ZooKeeper, which is everyone everything."""
        if self._acl is None or path == paths.CONSUMERS or path.startswith(f"{paths.CONSUMERS}/"):
            return None
        return self._acl

    def _add(self, transaction: Any, operation: Operation) -> None:
        match operation:
            case Create(path, data, ephemeral, sequential):
                check_path(path + "0" if sequential else path)
                transaction.create(path, data or b"", acl=self._acl_of(path), ephemeral=ephemeral, sequence=sequential)
            case SetData(path, data, version):
                check_path(path)
                transaction.set_data(path, data or b"", version)
            case Delete(path, version):
                check_path(path)
                transaction.delete(path, version)
            case Check(path, version):
                check_path(path)
                transaction.check(path, version)


def _fail(futures: Iterable[asyncio.Future[Any]]) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(ConnectionLost("the connection to ZooKeeper is interrupted"))


def _result(operation: Operation, result: Any) -> OperationResult:
    match operation:
        case Create():
            return str(result)
        case SetData():
            return ZnodeStat(*result)
    return None


def _translate(error: BaseException) -> ZooKeeperError:
    code = getattr(error, "code", None)
    if code == NoAuth.code:
        return NoAuth(_NOT_ALLOWED)
    if isinstance(code, int) and code in ERROR_OF_CODE:
        return ERROR_OF_CODE[code](str(error) or type(error).__name__)
    if isinstance(error, ValueError | TypeError):
        return BadArguments(str(error))
    return ConnectionLost(str(error) or type(error).__name__)
