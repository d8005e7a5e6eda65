"""What each request of ZooKeeper's protocol does to the tree: one function per opcode, an explicit table at the end.

A function reads its body, acts on the keeper and returns the body of the answer; what it raises becomes the error of the answer. Requests
that ZooKeeper knows and this server does not (TTL znodes, persistent watches, reconfiguration, SASL) answer `Unimplemented`, as a
ZooKeeper does where they are switched off.
"""

from collections.abc import Callable, Sequence

from millstream.zookeeper import acl
from millstream.zookeeper.acl import OPEN_TO_ALL, AclEntry, Identity
from millstream.zookeeper.change import decode_acl, encode_acl
from millstream.zookeeper.errors import AuthenticationFailed, NoNode, RuntimeInconsistency, ZooKeeperError
from millstream.zookeeper.jute import INT, JuteReader, encode_buffer, encode_string
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.operations import SetAcl, TreeOperation
from millstream.zookeeper.protocol import (
    Opcode,
    encode_failed_multi,
    encode_multi,
    encode_names,
    encode_result,
    encode_stat,
    read_multi,
    read_names,
    read_operation,
)
from millstream.zookeeper.tree import Session
from millstream.zookeeper.watches import Watcher, WatchEvent, WatchKind
from millstream.zookeeper.znode import ZnodeStat


class Requester:
    """Who asks: a client's session, what it has proved to be, and where its watch events go."""

    __slots__ = ("identities", "keeper", "session", "watcher")

    def __init__(self, keeper: TreeKeeper, session: Session, *, identities: frozenset[Identity], watcher: Watcher) -> None:
        self.keeper = keeper
        self.session = session
        self.identities = identities
        self.watcher = watcher


Handler = Callable[[Requester, JuteReader, int], bytes]


def _change(requester: Requester, reader: JuteReader, opcode: int) -> bytes:
    operation = read_operation(reader, opcode)
    (path, stat), *_ = _execute(requester, [operation])
    return encode_result(opcode, path, stat)


def _multi(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    requested = read_multi(reader)
    try:
        results = _execute(requester, [operation for _, operation in requested])
    except ZooKeeperError as error:
        failed = error.operation_index
        if failed is None:
            raise
        errors = [0] * failed + [error.code] + [RuntimeInconsistency.code] * (len(requested) - failed - 1)
        return encode_failed_multi(errors)
    return encode_multi([opcode for opcode, _ in requested], results)


def _exists(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    path, has_watch = _read_path(reader), reader.read_bool()
    node = requester.keeper.tree.nodes.get(path)
    if has_watch:
        requester.keeper.watches.add_data_watch(path, requester.watcher)
    if node is None:
        raise NoNode(path)
    return encode_stat(node.stat())


def _get_data(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    path, has_watch = _read_path(reader), reader.read_bool()
    node = requester.keeper.tree.node(path, identities=requester.identities)
    if has_watch:
        requester.keeper.watches.add_data_watch(path, requester.watcher)
    return encode_buffer(node.data) + encode_stat(node.stat())


def _get_children(requester: Requester, reader: JuteReader, opcode: int) -> bytes:
    path, has_watch = _read_path(reader), reader.read_bool()
    node = requester.keeper.tree.node(path, identities=requester.identities)
    if has_watch:
        requester.keeper.watches.add_child_watch(path, requester.watcher)
    names = encode_names(sorted(node.children))
    return names + encode_stat(node.stat()) if opcode == Opcode.GET_CHILDREN_2 else names


def _get_acl(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    node = requester.keeper.tree.node(_read_path(reader))
    acl.require(node.acl, acl.READ | acl.ADMIN, requester.identities)
    may_change = acl.is_granted(node.acl, acl.ADMIN, requester.identities)
    shown = node.acl if may_change else tuple([_without_digest(entry) for entry in node.acl])
    return encode_acl(shown) + encode_stat(node.stat())


def _set_acl(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    operation = SetAcl(reader.read_string(), decode_acl(reader), reader.read_int())
    (_, stat), *_ = _execute(requester, [operation])
    assert stat is not None
    return encode_stat(stat)


def _get_ephemerals(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    prefix = reader.read_string()
    return encode_names([path for path in requester.session.ephemerals if path.startswith(prefix)])


def _count_all_children(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    path = _read_path(reader)
    requester.keeper.tree.node(path, identities=requester.identities)
    prefix = path.rstrip("/") + "/"
    return INT.pack(sum(other.startswith(prefix) for other in requester.keeper.tree.nodes) - (path == "/"))


def _who_am_i(requester: Requester, _reader: JuteReader, _opcode: int) -> bytes:
    """Scheme and user of each identity; a digest is not shown."""
    identities = sorted(requester.identities)
    return INT.pack(len(identities)) + b"".join([encode_string(scheme) + encode_string(name.split(":")[0]) for scheme, name in identities])


def _sync(_requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    return encode_string(reader.read_string())


def _nothing(_requester: Requester, _reader: JuteReader, _opcode: int) -> bytes:
    return b""


def _authenticate(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    reader.read_int()
    scheme, credentials = reader.read_string(), reader.read_buffer() or b""
    if scheme != "digest":
        raise AuthenticationFailed(f"no such scheme: {scheme}")
    requester.identities |= {acl.digest_identity(credentials)}
    return b""


def _set_watches(requester: Requester, reader: JuteReader, _opcode: int) -> bytes:
    """A client that was away says what it watched and up to where it has seen: it gets now what it missed."""
    seen_zxid = reader.read_long()
    data_paths, exists_paths, children_paths = read_names(reader), read_names(reader), read_names(reader)
    nodes, watches, watcher = requester.keeper.tree.nodes, requester.keeper.watches, requester.watcher
    for path in data_paths:
        node = nodes.get(path)
        if node is None:
            watcher(WatchEvent(WatchKind.DELETED, path), OPEN_TO_ALL)
        elif node.mzxid > seen_zxid:
            watcher(WatchEvent(WatchKind.CHANGED, path), OPEN_TO_ALL)
        else:
            watches.add_data_watch(path, watcher)
    for path in exists_paths:
        if path in nodes:
            watcher(WatchEvent(WatchKind.CREATED, path), OPEN_TO_ALL)
        else:
            watches.add_data_watch(path, watcher)
    for path in children_paths:
        node = nodes.get(path)
        if node is None:
            watcher(WatchEvent(WatchKind.DELETED, path), OPEN_TO_ALL)
        elif node.pzxid > seen_zxid:
            watcher(WatchEvent(WatchKind.CHILDREN, path), OPEN_TO_ALL)
        else:
            watches.add_child_watch(path, watcher)
    return b""


def _execute(requester: Requester, operations: Sequence[TreeOperation]) -> list[tuple[str, ZnodeStat | None]]:
    return requester.keeper.execute(operations, session_id=requester.session.session_id, identities=requester.identities)


def _read_path(reader: JuteReader) -> str:
    """The path of a read: ZooKeeper checks it by looking, and takes an empty one for the root."""
    return reader.read_string() or "/"


def _without_digest(entry: AclEntry) -> AclEntry:
    scheme, name = entry.identity
    if scheme != "digest":
        return entry
    return AclEntry(entry.permissions, Identity(scheme, f"{name.partition(':')[0]}:x"))


HANDLERS: dict[int, Handler] = {
    Opcode.CREATE: _change,
    Opcode.CREATE_2: _change,
    Opcode.CREATE_CONTAINER: _change,
    Opcode.DELETE: _change,
    Opcode.SET_DATA: _change,
    Opcode.CHECK: _change,
    Opcode.MULTI: _multi,
    Opcode.EXISTS: _exists,
    Opcode.GET_DATA: _get_data,
    Opcode.GET_CHILDREN: _get_children,
    Opcode.GET_CHILDREN_2: _get_children,
    Opcode.GET_ACL: _get_acl,
    Opcode.SET_ACL: _set_acl,
    Opcode.GET_EPHEMERALS: _get_ephemerals,
    Opcode.GET_ALL_CHILDREN_NUMBER: _count_all_children,
    Opcode.WHO_AM_I: _who_am_i,
    Opcode.SYNC: _sync,
    Opcode.PING: _nothing,
    Opcode.AUTH: _authenticate,
    Opcode.SET_WATCHES: _set_watches,
}

KNOWN_BUT_UNIMPLEMENTED = frozenset(Opcode) - frozenset(HANDLERS) - {Opcode.NOTIFICATION, Opcode.CLOSE_SESSION}
