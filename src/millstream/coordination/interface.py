"""The one small interface between Millstream and its coordination, wherever the tree of znodes is.

Two implementations, one contract (`tests/cluster/test_contract.py` runs on all): `EmbeddedCoordination`, a tree in this process, and
`KazooCoordination`, a real ZooKeeper. What a caller may rely on:

- Paths, versions, ephemeral and sequential znodes and multi are ZooKeeper's.
- A write that returned is durable. After `ConnectionLost` a write may or may not have happened, or happen when the connection is back.
- A watch is one-shot: it is called once, on the event loop, for the first change after the read that set it; `exists` may watch a znode
  that is not there yet. Each registration is called by itself, also when the same function is registered twice.
- Watches do not outlive a lost connection: whoever watches also listens to the session, and reads everything again on `CONNECTED`.
- `LOST` means the session is over and its ephemeral znodes are gone; a following `CONNECTED` is a new session with a new `session_id`.
- `has_lease` is about the session of now, whose id is `session_id`. What was decided about the znodes of a former session (who leads what)
  is not covered by the lease of the next one, until it has been read again.

Recursive watches, access lists and quotas are not part of it.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from millstream.zookeeper.operations import ANY_VERSION, Check, Create, Delete, Operation, SetData
from millstream.zookeeper.watches import WatchEvent, WatchKind
from millstream.zookeeper.znode import ZnodeStat

__all__ = [
    "ANY_VERSION",
    "Check",
    "Coordination",
    "Create",
    "Delete",
    "Operation",
    "OperationResult",
    "SessionListener",
    "SessionState",
    "SetData",
    "WatchCallback",
    "WatchEvent",
    "WatchKind",
    "ZnodeStat",
]


class SessionState(Enum):
    """How the session is."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


WatchCallback = Callable[[WatchEvent], None]
SessionListener = Callable[[SessionState], None]
OperationResult = str | ZnodeStat | None


class Coordination(Protocol):
    """A session in a tree of znodes."""

    @property
    def session_id(self) -> int:
        """The session that owns the ephemeral znodes created here."""

    @property
    def has_lease(self) -> bool:
        """Whether the session is certainly alive at this moment; to be looked at at every use (`coordination.lease`)."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, make_parents: bool = False
    ) -> str:
        """Create a znode and return its path (with the number, where sequential)."""

    async def get(self, path: str, *, watch: WatchCallback | None = None) -> tuple[bytes, ZnodeStat]:
        """Data and stat; the watch sees the next change or deletion."""

    async def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> ZnodeStat:
        """Replace the data if the znode has that version."""

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Remove a znode without children if it has that version."""

    async def exists(self, path: str, *, watch: WatchCallback | None = None) -> ZnodeStat | None:
        """The stat, or None; the watch sees the next creation, change or deletion."""

    async def children(self, path: str, *, watch: WatchCallback | None = None) -> list[str]:
        """Names of the children, sorted; the watch sees the next child that comes or goes, or the znode's deletion."""

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All or nothing: a path per Create, a stat per SetData, None for the others; raises the error of the one that failed."""

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call back, on the event loop, when the session's state changes."""

    async def close(self) -> None:
        """End the session: its ephemeral znodes go at once."""
