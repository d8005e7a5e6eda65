"""The tree of znodes: pure state, ZooKeeper's rules, no time, no disk, no network.

`execute` decides and applies operations, `commit` applies changes that need no decision, `replay` applies what a journal holds. All three
go through `_apply`, the only mutator, so a tree that is replayed from its journal is the tree that was.

Invariants:
- every path but "/" has its parent in `nodes`, and its name is in the parent's `children`;
- an ephemeral znode has no children and stands in the `ephemerals` of a session in `sessions`;
- `last_zxid` grows by one with every transaction, and jumps to the next epoch at a restart;
- a multi that fails leaves no trace: its steps are undone in reverse order.

It does not know when a session times out (`keeper`), who watches (`watches`) or what is durable (`journal`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from millstream.zookeeper import acl
from millstream.zookeeper.acl import OPEN_TO_ALL, Identity
from millstream.zookeeper.change import AclChanged, Change, DataChanged, NodeCreated, NodeDeleted, SessionClosed, SessionOpened, Transaction
from millstream.zookeeper.errors import (
    BadArguments,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    ZooKeeperError,
)
from millstream.zookeeper.operations import ANY_VERSION, Check, Create, Delete, SetAcl, SetData, TreeOperation
from millstream.zookeeper.watches import WatchEvent, WatchKind
from millstream.zookeeper.znode import CONTAINER_OWNER, Znode, ZnodeStat, check_path, parent_of

Identities = frozenset[Identity] | None
"""Who asks; None is the broker itself, which access lists do not bind."""

Undo = Callable[[], None]

_RESERVED = ("/zookeeper", "/zookeeper/config", "/zookeeper/quota")


SeenChange = tuple[WatchEvent, acl.Acl]
"""An event for watchers, and the access list that says who may hear of it."""


class Session:
    """A client's presence, and the ephemeral znodes that go with it."""

    __slots__ = ("ephemerals", "name", "password", "session_id", "timeout_ms")

    def __init__(self, opened: SessionOpened) -> None:
        self.session_id, self.timeout_ms, self.password, self.name = opened
        self.ephemerals: dict[str, None] = {}


class Outcome(NamedTuple):
    """One result per operation: path and stat of a created znode, the stat of a changed one, None for the others."""

    transaction: Transaction
    results: list[tuple[str, ZnodeStat | None]]
    events: list[SeenChange]


class Tree:
    """All znodes and sessions."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", OPEN_TO_ALL, owner=0, zxid=0, time_ms=0)}
        self.sessions: dict[int, Session] = {}
        self.containers: set[str] = set()
        self.last_zxid = 0
        self.next_zxid = 1
        for path in _RESERVED:
            self._attach(path, Znode(b"", OPEN_TO_ALL, owner=0, zxid=0, time_ms=0))

    def node(self, path: str, *, identities: Identities = None) -> Znode:
        """The znode at `path`, if there is one and it may be read."""
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        acl.require(node.acl, acl.READ, identities)
        return node

    def execute(self, operations: Sequence[TreeOperation], *, session_id: int, identities: Identities, time_ms: int) -> Outcome:
        """Do all of the operations, or none and raise the error of the first that fails."""
        zxid = self.next_zxid
        changes: list[Change] = []
        results: list[tuple[str, ZnodeStat | None]] = []
        events: list[SeenChange] = []
        undo: list[Undo] = []
        for index, operation in enumerate(operations):
            try:
                change = self._decide(operation, session_id, identities)
            except ZooKeeperError as error:
                for step in reversed(undo):
                    step()
                error.operation_index = index
                raise
            if change is not None:
                undo.append(self._apply(change, zxid, time_ms, events))
                changes.append(change)
            results.append(self._result(change))
        transaction = Transaction(self.last_zxid, zxid, time_ms, tuple(changes))
        if changes:
            self._advance(zxid)
        return Outcome(transaction, results, events)

    def commit(self, changes: Sequence[Change], *, time_ms: int) -> Outcome:
        """Apply changes that were decided elsewhere: sessions that open and close."""
        transaction = Transaction(self.last_zxid, self.next_zxid, time_ms, tuple(changes))
        return Outcome(transaction, [], self.replay(transaction))

    def replay(self, transaction: Transaction) -> list[SeenChange]:
        """Apply a transaction that follows the last one."""
        assert transaction.previous_zxid == self.last_zxid < transaction.zxid
        events: list[SeenChange] = []
        for change in transaction.changes:
            self._apply(change, transaction.zxid, transaction.time_ms, events)
        self._advance(transaction.zxid)
        return events

    def begin_epoch(self) -> None:
        """Number the next transactions in a new epoch, the upper half of the zxid: no client may ever see it go back."""
        self.next_zxid = ((self.last_zxid >> 32) + 1) << 32

    def _advance(self, zxid: int) -> None:
        self.last_zxid = zxid
        self.next_zxid = zxid + 1

    def restore(self, path: str, node: Znode) -> None:
        """Put a znode of a snapshot back, parents first."""
        if path in self.nodes:
            node.children = self.nodes[path].children
            self.nodes[path] = node
        else:
            self._attach(path, node)

    def empty_containers(self) -> list[str]:
        """Containers that had children and have none any more."""
        return [path for path in sorted(self.containers) if self.nodes[path].creates and not self.nodes[path].children]

    # Deciding: from what is asked to what happens.

    def _decide(self, operation: TreeOperation, session_id: int, identities: Identities) -> Change | None:
        match operation:
            case Create():
                return self._decide_create(operation, session_id, identities)
            case SetData(path, data, version):
                node = self._existing(path)
                acl.require(node.acl, acl.WRITE, identities)
                _require_version(path, version, node.version)
                return DataChanged(path, data)
            case Delete(path, version):
                return self._decide_delete(path, version, identities)
            case Check(path, version):
                node = self._existing(path)
                acl.require(node.acl, acl.READ, identities)
                _require_version(path, version, node.version)
                return None
            case SetAcl(path, requested, version):
                check_path(path)
                resolved = acl.resolve(requested, identities or frozenset())
                node = self._existing(path)
                acl.require(node.acl, acl.ADMIN, identities)
                _require_version(path, version, node.aversion)
                return AclChanged(path, resolved)

    def _decide_create(self, operation: Create, session_id: int, identities: Identities) -> NodeCreated:
        path, data, ephemeral, sequential, requested, container = operation
        if "/" not in path:
            raise BadArguments(f"a path starts with a slash: {path!r}")
        resolved = OPEN_TO_ALL if requested is OPEN_TO_ALL else acl.resolve(requested, identities or frozenset())
        parent = self.nodes.get(parent_of(path))
        if parent is None:
            raise NoNode(path)
        acl.require(parent.acl, acl.CREATE, identities)
        if sequential:
            path = f"{path}{parent.creates:010d}"
        check_path(path)
        if path in self.nodes:
            raise NodeExists(path)
        if parent.is_ephemeral:
            raise NoChildrenForEphemerals(path)
        if ephemeral and session_id not in self.sessions:
            raise SessionExpired(f"session {session_id:#x} is over")
        owner = session_id if ephemeral else CONTAINER_OWNER if container else 0
        return NodeCreated(path, data, resolved, owner)

    def _decide_delete(self, path: str, version: int, identities: Identities) -> NodeDeleted:
        if path == "/" or path in _RESERVED or "/" not in path:
            raise BadArguments(f"{path} cannot be deleted")
        acl.require(self.node(parent_of(path)).acl, acl.DELETE, identities)
        node = self.node(path)
        _require_version(path, version, node.version)
        if node.children:
            raise NotEmpty(path)
        return NodeDeleted(path)

    def _existing(self, path: str) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            check_path(path)
            raise NoNode(path)
        return node

    def _result(self, change: Change | None) -> tuple[str, ZnodeStat | None]:
        if change is None or isinstance(change, NodeDeleted | SessionOpened | SessionClosed):
            return "", None
        return change.path, self.nodes[change.path].stat()

    # Applying: the only code that changes anything. Each step returns how to undo it.

    def _apply(self, change: Change, zxid: int, time_ms: int, events: list[SeenChange]) -> Undo:
        match change:
            case NodeCreated():
                return self._create(change, zxid, time_ms, events)
            case DataChanged(path, data):
                return self._set_data(path, data, zxid, time_ms, events)
            case NodeDeleted(path):
                return self._delete(path, zxid, events)
            case AclChanged(path, new_acl):
                return self._set_acl(path, new_acl)
            case SessionOpened():
                self.sessions[change.session_id] = Session(change)
            case SessionClosed(session_id):
                for path in list(self.sessions[session_id].ephemerals):
                    self._delete(path, zxid, events)
                del self.sessions[session_id]
        return _never_undone

    def _create(self, change: NodeCreated, zxid: int, time_ms: int, events: list[SeenChange]) -> Undo:
        path, data, node_acl, owner = change
        parent_path = parent_of(path)
        parent = self.nodes[parent_path]
        previous_pzxid = parent.pzxid
        node = Znode(data, node_acl, owner=owner, zxid=zxid, time_ms=time_ms)
        self._attach(path, node)
        parent.creates += 1
        parent.pzxid = zxid
        events.append((WatchEvent(WatchKind.CREATED, path), node.acl))
        events.append((WatchEvent(WatchKind.CHILDREN, parent_path), parent.acl))

        def undo() -> None:
            self._detach(path)
            parent.creates -= 1
            parent.pzxid = previous_pzxid

        return undo

    def _delete(self, path: str, zxid: int, events: list[SeenChange]) -> Undo:
        parent_path = parent_of(path)
        parent = self.nodes[parent_path]
        previous_pzxid = parent.pzxid
        node = self._detach(path)
        parent.pzxid = zxid
        events.append((WatchEvent(WatchKind.DELETED, path), node.acl))
        events.append((WatchEvent(WatchKind.CHILDREN, parent_path), parent.acl))

        def undo() -> None:
            self._attach(path, node)
            parent.pzxid = previous_pzxid

        return undo

    def _set_data(self, path: str, data: bytes | None, zxid: int, time_ms: int, events: list[SeenChange]) -> Undo:
        node = self.nodes[path]
        before = (node.data, node.version, node.mzxid, node.mtime_ms)
        node.data, node.version, node.mzxid, node.mtime_ms = data, node.version + 1, zxid, time_ms
        events.append((WatchEvent(WatchKind.CHANGED, path), node.acl))

        def undo() -> None:
            node.data, node.version, node.mzxid, node.mtime_ms = before

        return undo

    def _set_acl(self, path: str, new_acl: acl.Acl) -> Undo:
        node = self.nodes[path]
        before = (node.acl, node.aversion)
        node.acl, node.aversion = new_acl, node.aversion + 1

        def undo() -> None:
            node.acl, node.aversion = before

        return undo

    def _attach(self, path: str, node: Znode) -> None:
        parent_path, _, name = path.rpartition("/")
        self.nodes[path] = node
        self.nodes[parent_path or "/"].children[name] = None
        if node.owner == CONTAINER_OWNER:
            self.containers.add(path)
        elif node.owner:
            self.sessions[node.owner].ephemerals[path] = None

    def _detach(self, path: str) -> Znode:
        parent_path, _, name = path.rpartition("/")
        node = self.nodes.pop(path)
        self.nodes[parent_path or "/"].children.pop(name, None)
        if node.owner == CONTAINER_OWNER:
            self.containers.discard(path)
        elif node.owner:
            del self.sessions[node.owner].ephemerals[path]
        return node


def _require_version(path: str, expected: int, actual: int) -> None:
    if expected not in (ANY_VERSION, actual):
        raise BadVersion(f"{path} has version {actual}, not {expected}")


def _never_undone() -> None:
    raise AssertionError("sessions are not part of a multi")
