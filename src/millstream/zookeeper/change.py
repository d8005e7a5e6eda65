"""What happened to the tree, as values: the records of the journal.

An operation asks, a change states: the sequential number is in the path, the version was checked, the access list is resolved. So
applying the changes of a journal in their order always gives the same tree. The bytes of one transaction:

    previous zxid int64 | zxid int64 | time int64 | count int32 | count x ( kind int8 | fields in Jute )
"""

import struct
from typing import NamedTuple

from millstream.zookeeper.acl import OPEN_TO_ALL, Acl, AclEntry, Identity
from millstream.zookeeper.errors import MarshallingError
from millstream.zookeeper.jute import INT, LONG, JuteReader, encode_buffer, encode_string


class NodeCreated(NamedTuple):
    """A znode came to be; `owner` is a session, 0, or the mark of a container."""

    path: str
    data: bytes | None
    acl: Acl
    owner: int


class DataChanged(NamedTuple):
    """A znode got new data."""

    path: str
    data: bytes | None


class NodeDeleted(NamedTuple):
    """A znode went."""

    path: str


class AclChanged(NamedTuple):
    """A znode got a new access list."""

    path: str
    acl: Acl


class SessionOpened(NamedTuple):
    """A session began; one with a `name` belongs to a broker in this process and has no timeout."""

    session_id: int
    timeout_ms: int
    password: bytes
    name: str


class SessionClosed(NamedTuple):
    """A session ended, and with it its ephemeral znodes."""

    session_id: int


Change = NodeCreated | DataChanged | NodeDeleted | AclChanged | SessionOpened | SessionClosed


class Transaction(NamedTuple):
    """Changes that happened together."""

    previous_zxid: int
    zxid: int
    time_ms: int
    changes: tuple[Change, ...]


_HEADER = struct.Struct(">qqqi")
_NODE_CREATED, _DATA_CHANGED, _NODE_DELETED, _ACL_CHANGED, _SESSION_OPENED, _SESSION_CLOSED = (bytes([kind]) for kind in range(1, 7))


def encode_transaction(transaction: Transaction) -> bytes:
    """The bytes of a transaction."""
    previous_zxid, zxid, time_ms, changes = transaction
    return _HEADER.pack(previous_zxid, zxid, time_ms, len(changes)) + b"".join([_encode_change(change) for change in changes])


def decode_transaction(content: bytes) -> Transaction:
    """The transaction in these bytes; `MarshallingError` if they are none."""
    reader = JuteReader(content)
    previous_zxid, zxid, time_ms, count = reader.read_struct(_HEADER)
    changes = tuple([_decode_change(reader) for _ in range(count)])
    if reader.remaining:
        raise MarshallingError(f"{reader.remaining} bytes after the last change")
    return Transaction(previous_zxid, zxid, time_ms, changes)


def encode_acl(acl: Acl) -> bytes:
    """An access list as a vector of permissions, scheme, id."""
    entries = [INT.pack(entry.permissions) + encode_string(entry.identity.scheme) + encode_string(entry.identity.id) for entry in acl]
    return INT.pack(len(entries)) + b"".join(entries)


def decode_acl(reader: JuteReader) -> Acl:
    """An access list; the open one is always the same object, which makes checking it cheap."""
    acl = tuple([AclEntry(reader.read_int(), Identity(reader.read_string(), reader.read_string())) for _ in range(reader.read_count(12))])
    return OPEN_TO_ALL if acl == OPEN_TO_ALL else acl


def _encode_change(change: Change) -> bytes:
    match change:
        case NodeCreated(path, data, acl, owner):
            encoded_acl = b"\x00\x00\x00\x00" if acl is OPEN_TO_ALL else encode_acl(acl)
            return _NODE_CREATED + encode_string(path) + encode_buffer(data) + encoded_acl + LONG.pack(owner)
        case DataChanged(path, data):
            return _DATA_CHANGED + encode_string(path) + encode_buffer(data)
        case NodeDeleted(path):
            return _NODE_DELETED + encode_string(path)
        case AclChanged(path, acl):
            return _ACL_CHANGED + encode_string(path) + encode_acl(acl)
        case SessionOpened(session_id, timeout_ms, password, name):
            return _SESSION_OPENED + LONG.pack(session_id) + INT.pack(timeout_ms) + encode_buffer(password) + encode_string(name)
        case SessionClosed(session_id):
            return _SESSION_CLOSED + LONG.pack(session_id)


def _decode_change(reader: JuteReader) -> Change:
    kind = bytes(reader.read_struct(_KIND))
    if kind == _NODE_CREATED:
        return NodeCreated(reader.read_string(), reader.read_buffer(), decode_acl(reader) or OPEN_TO_ALL, reader.read_long())
    if kind == _DATA_CHANGED:
        return DataChanged(reader.read_string(), reader.read_buffer())
    if kind == _NODE_DELETED:
        return NodeDeleted(reader.read_string())
    if kind == _ACL_CHANGED:
        return AclChanged(reader.read_string(), decode_acl(reader))
    if kind == _SESSION_OPENED:
        return SessionOpened(reader.read_long(), reader.read_int(), reader.read_buffer() or b"", reader.read_string())
    if kind == _SESSION_CLOSED:
        return SessionClosed(reader.read_long())
    raise MarshallingError(f"no change has the kind {kind.hex()}")


_KIND = struct.Struct(">B")
