"""ZooKeeper as a map with versions, sessions that end, and multis that happen whole or not at all."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.simulation.world import World

ADDRESS = "zookeeper"


class Node(NamedTuple):
    """A znode."""

    value: Any
    version: int
    created: int
    owner: int | None = None


class Write(NamedTuple):
    """A part of a multi: `version` None creates, -1 writes whatever is there; `value` None only checks."""

    path: str
    value: Any
    version: int | None
    is_ephemeral: bool = False


class Snapshot(NamedTuple):
    """The whole tree at one moment."""

    zxid: int
    nodes: Mapping[str, Node]


Reply = Callable[[object], None]


class ZooKeeper:
    """The tree, and its sessions."""

    def __init__(self, world: World, *, session_ms: int) -> None:
        self.nodes: dict[str, Node] = {}
        self.session_ms = session_ms
        self.heard_ms: dict[int, int] = {}
        self.is_away = False
        self._world = world
        self._zxid = 0
        self._sessions = 0
        self._watchers: dict[int, tuple[str, Callable[[], None]]] = {}
        self._tick()

    def _tick(self) -> None:
        if not self.is_away:
            for session, heard in list(self.heard_ms.items()):
                if self._world.now_ms - heard > self.session_ms:
                    self._expire(session)
        self._world.after(100, self._tick)

    def come_back(self) -> None:
        """After it was away everyone has a whole session again."""
        self.is_away = False
        for session in self.heard_ms:
            self.heard_ms[session] = self._world.now_ms

    def _expire(self, session: int) -> None:
        self._world.note(f"session {session} is over")
        self.heard_ms.pop(session, None)
        self._watchers.pop(session, None)
        owned = [path for path, node in self.nodes.items() if node.owner == session]
        for path in owned:
            del self.nodes[path]
        if owned:
            self._zxid += 1
            self._changed()

    def connect(self, address: str, on_change: Callable[[], None], reply: Callable[[int], None]) -> None:
        """A new session; the answer is its number."""

        def arrive() -> None:
            if not self.is_away:
                self._sessions += 1
                session = self._sessions
                self.heard_ms[session] = self._world.now_ms
                self._watchers[session] = (address, on_change)
                self._world.send(ADDRESS, address, lambda: reply(session), may_repeat=False)

        self._world.send(address, ADDRESS, arrive, may_repeat=False)

    def close(self, session: int) -> None:
        """The session is ended by its owner, at once."""
        if session in self.heard_ms:
            self._expire(session)

    def ask(self, address: str, session: int, writes: list[Write], reply: Reply) -> None:
        """Write all or nothing, and answer with the tree as it is then; "expired" or "conflict" if that could not be."""

        def arrive() -> None:
            if self.is_away:
                return
            if session not in self.heard_ms:
                self._world.send(ADDRESS, address, lambda: reply("expired"), may_repeat=False)
                return
            self.heard_ms[session] = self._world.now_ms
            answer = self._multi(session, writes)
            self._world.send(ADDRESS, address, lambda: reply(answer), may_repeat=False)

        self._world.send(address, ADDRESS, arrive, may_repeat=False)

    def _multi(self, session: int, writes: list[Write]) -> object:
        for write in writes:
            node = self.nodes.get(write.path)
            if write.version is None and node is not None:
                return "conflict"
            if write.version is not None and write.version >= 0 and (node is None or node.version != write.version):
                return "conflict"
        changing = [write for write in writes if write.value is not None]
        if changing:
            self._zxid += 1
        for write in changing:
            node = self.nodes.get(write.path)
            owner = session if write.is_ephemeral else None
            if node is None:
                self.nodes[write.path] = Node(write.value, 0, self._zxid, owner)
            else:
                self.nodes[write.path] = node._replace(value=write.value, version=node.version + 1)
        if changing:
            self._changed()
        return Snapshot(self._zxid, dict(self.nodes))

    def _changed(self) -> None:
        for address, on_change in self._watchers.values():
            self._world.send(ADDRESS, address, on_change)
