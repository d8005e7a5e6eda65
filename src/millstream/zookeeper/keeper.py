"""Keeps one tree: the only place where the tree, its journal, its watches and the time come together.

Everything that changes the tree is a plain call on the event loop: decide and apply, write to the journal, notify the watchers. An answer
waits for the disk first (`durability`). Readers see a change as soon as it is applied: on a power cut everyone who could
have seen it goes down with this machine, for which alone the embedded tree is made.

When the disk fails the tree is offline for good: memory is ahead of the disk, so nothing is read, written or answered any more.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from millstream.clock import Clock
from millstream.files import Files
from millstream.zookeeper.change import SessionClosed, SessionOpened
from millstream.zookeeper.durability import Durability
from millstream.zookeeper.errors import ZooKeeperError
from millstream.zookeeper.journal import Journal
from millstream.zookeeper.operations import Delete, TreeOperation
from millstream.zookeeper.tree import Identities, Outcome, Session, Tree
from millstream.zookeeper.watches import WatchTable
from millstream.zookeeper.znode import ZnodeStat

_log = logging.getLogger(__name__)

_CONTAINER_CHECK_MS = 60_000
_LARGEST_SESSION_ID = 2**62 - 1


class TreeKeeper:
    """A tree with its journal, watches and session timeouts."""

    def __init__(self, tree: Tree, journal: Journal, *, clock: Clock, is_synced: bool) -> None:
        self.tree = tree
        self.watches = WatchTable()
        self.durability = Durability(journal, is_synced=is_synced)
        self._journal = journal
        self._clock = clock
        self._session_tracker = SessionTracker()
        self._expiry_listeners: list[Callable[[int], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._next_container_check_ms = 0
        self._is_closed = False
        for session in tree.sessions.values():
            self.touch(session)

    @classmethod
    async def open(cls, directory: Path, *, files: Files, clock: Clock, is_synced: bool = True) -> Self:
        """Recover the tree of a directory; its sessions come back, each with a full timeout."""
        journal = Journal(directory, files=files)
        tree = journal.recover()
        tree.begin_epoch()
        return cls(tree, journal, clock=clock, is_synced=is_synced)

    def execute(
        self, operations: Sequence[TreeOperation], *, session_id: int, identities: Identities = None
    ) -> list[tuple[str, ZnodeStat | None]]:
        """Do the operations together; they are in the journal when this returns, and on the disk when `durability` says so."""
        self.durability.require_online()
        outcome = self.tree.execute(operations, session_id=session_id, identities=identities, time_ms=self._clock.now_ms())
        self._record(outcome)
        return outcome.results

    def open_session(self, timeout_ms: int, *, name: str = "") -> Session:
        """Begin a session; one with a name has no timeout, and ends what is left of an earlier life of that name."""
        self.durability.require_online()
        sessions = self.tree.sessions
        earlier = [SessionClosed(session.session_id) for session in sessions.values() if name and session.name == name]
        session_id = max((self._clock.now_ms() << 16) & _LARGEST_SESSION_ID, max(sessions, default=0) + 1)
        opened = SessionOpened(session_id, 0 if name else timeout_ms, os.urandom(16), name)
        self._record(self.tree.commit([*earlier, opened], time_ms=self._clock.now_ms()))
        session = sessions[session_id]
        self.touch(session)
        return session

    def close_session(self, session_id: int) -> None:
        """End a session: its ephemeral znodes go."""
        self.durability.require_online()
        self._session_tracker.forget(session_id)
        if session_id in self.tree.sessions:
            self._record(self.tree.commit([SessionClosed(session_id)], time_ms=self._clock.now_ms()))

    def touch(self, session: Session) -> None:
        """The client of the session was heard."""
        now_ms = self._clock.monotonic_ms()
        self._session_tracker.touch(session, now_ms=now_ms)
        if self._timer is None and self._session_tracker and not self._is_closed:
            self._session_tracker.start(now_ms=now_ms)
            self._schedule_tick()

    def on_expiry(self, listener: Callable[[int], None]) -> None:
        """Call back with each session that timed out, after its ephemeral znodes went."""
        self._expiry_listeners.append(listener)

    def tick(self) -> None:
        """End the sessions whose time is over and, now and then, remove empty containers."""
        now_ms = self._clock.monotonic_ms()
        for session_id in self._session_tracker.tick(now_ms=now_ms):
            _log.info("session %#x was not heard of for its whole timeout and is expired", session_id)
            self.close_session(session_id)
            for listener in self._expiry_listeners:
                listener(session_id)
        if now_ms >= self._next_container_check_ms:
            self._next_container_check_ms = now_ms + _CONTAINER_CHECK_MS
            self.remove_empty_containers()

    def remove_empty_containers(self) -> None:
        """Delete the containers that had children and have none any more, as ZooKeeper does once a minute."""
        for path in self.tree.empty_containers():
            self.execute([Delete(path)], session_id=0)

    async def close(self) -> None:
        """Sync what is left and let go of the files; sessions stay, for the next start."""
        if not self._is_closed:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
            await self.durability.close()

    def _record(self, outcome: Outcome) -> None:
        if not outcome.transaction.changes:
            return
        try:
            self._journal.append(outcome.transaction)
            snapshot = self._journal.begin_snapshot(self.tree)
        except OSError as error:
            self.durability.fail(error)
            self.durability.require_online()
            return
        if snapshot is not None:
            self.durability.run_on_disk(snapshot.run, self._journal.complete_snapshot)
        for event, acl in outcome.events:
            self.watches.trigger(event, acl)

    def _schedule_tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._session_tracker.tick_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self.tick()
        except ZooKeeperError as error:
            _log.warning("sessions are no longer watched: %s", error)
            return
        if (self._session_tracker or self.tree.containers) and not self._is_closed:
            self._schedule_tick()


class SessionTracker:
    """Deadlines of the sessions that have a timeout, checked at every tick.

    A stalled server must not blame its clients: while it was not running it could not hear them. So a tick that comes late moves every
    deadline by the lateness and expires no session; the pings that wait in the sockets are read before the next one.
    """

    def __init__(self, *, tick_ms: int = 100) -> None:
        self.tick_ms = tick_ms
        self._deadlines: dict[int, int] = {}
        self._next_tick_ms: int | None = None

    def __bool__(self) -> bool:
        return bool(self._deadlines)

    def touch(self, session: Session, *, now_ms: int) -> None:
        """The client was heard: it has its full timeout again."""
        if session.timeout_ms > 0:
            self._deadlines[session.session_id] = now_ms + session.timeout_ms

    def forget(self, session_id: int) -> None:
        """The session is over."""
        self._deadlines.pop(session_id, None)

    def start(self, *, now_ms: int) -> None:
        """Ticks begin (again); the time before is no lateness."""
        self._next_tick_ms = now_ms + self.tick_ms

    def tick(self, *, now_ms: int) -> list[int]:
        """The sessions whose time is over."""
        lateness_ms = 0 if self._next_tick_ms is None else now_ms - self._next_tick_ms
        self._next_tick_ms = now_ms + self.tick_ms
        if lateness_ms > self.tick_ms:
            for session_id in self._deadlines:
                self._deadlines[session_id] += lateness_ms
            return []
        return [session_id for session_id, deadline in self._deadlines.items() if deadline <= now_ms]
