"""Everything that ever happened to the znodes of a site, from the disk: the journal of the embedded tree, or ZooKeeper's transaction log.

ZooKeeper's log (`version-2/log.<zxid>`): magic "ZKLG", version int32, database id int64; then per transaction a checksum int64, a length
int32, the transaction, and "B". A transaction is its header (session int64, cxid int32, zxid int64, time int64, type int32) and, by type,
1 create: path, data, access list, ephemeral, version; 2 delete: path; 5 set data: path, data, version; 14 multi: the same, nested;
-11 the end of a session. All in Jute.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from millstream.zookeeper.change import DataChanged, NodeCreated, NodeDeleted, SessionClosed, decode_transaction
from millstream.zookeeper.jute import JuteReader

Kind = Literal["created", "changed", "deleted", "session ended"]

_JOURNAL_MAGIC, _JOURNAL_FRAME = b"MLSTJRNL", struct.Struct(">II")
_LOG_HEADER, _LOG_FRAME, _TRANSACTION = struct.Struct(">4siq"), struct.Struct(">qi"), struct.Struct(">qiqqi")
_CREATE, _DELETE, _SET_DATA, _MULTI, _CLOSE_SESSION = 1, 2, 5, 14, -11
_CREATE_2, _CREATE_CONTAINER, _ERROR = 15, 19, -1


class Event(NamedTuple):
    """What happened to one znode; `session` is the owner of one that is ephemeral, or the session that ended."""

    kind: Kind
    path: str = ""
    data: bytes = b""
    session: int = 0


def embedded_history(directory: Path) -> Iterator[list[Event]]:
    """The transactions in the journals of an embedded tree, oldest first."""
    for file in sorted(directory.glob("journal.*")):
        content = file.read_bytes()
        position = len(_JOURNAL_MAGIC)
        while position + _JOURNAL_FRAME.size <= len(content):
            size, _ = _JOURNAL_FRAME.unpack_from(content, position)
            position += _JOURNAL_FRAME.size
            yield list(_embedded_events(content[position : position + size]))
            position += size


def _embedded_events(payload: bytes) -> Iterator[Event]:
    for change in decode_transaction(payload).changes:
        match change:
            case NodeCreated(path, data, _, owner):
                yield Event("created", path, data or b"", owner)
            case DataChanged(path, data):
                yield Event("changed", path, data or b"")
            case NodeDeleted(path):
                yield Event("deleted", path)
            case SessionClosed(session_id):
                yield Event("session ended", session=session_id)


def zookeeper_history(directory: Path, chroot: str) -> Iterator[list[Event]]:
    """The transactions in the logs of a ZooKeeper below a path, oldest first."""
    for file in sorted((directory / "version-2").glob("log.*"), key=lambda found: int(found.suffix[1:], 16)):
        content = file.read_bytes()
        position = _LOG_HEADER.size
        while position + _LOG_FRAME.size <= len(content):
            _, size = _LOG_FRAME.unpack_from(content, position)
            if size == 0:  # the file is longer than what was written
                break
            position += _LOG_FRAME.size
            session, _, _, _, kind = _TRANSACTION.unpack_from(content, position)
            reader = JuteReader(content[position + _TRANSACTION.size : position + size])
            yield [event._replace(path=event.path.removeprefix(chroot)) for event in _zookeeper_events(kind, reader, session)]
            position += size + 1


def _zookeeper_events(kind: int, reader: JuteReader, session: int) -> Iterator[Event]:
    if kind in (_CREATE, _CREATE_2, _CREATE_CONTAINER):
        path, data = reader.read_string(), reader.read_buffer() or b""
        for _ in range(reader.read_int()):
            reader.read_int(), reader.read_string(), reader.read_string()
        yield Event("created", path, data, session if reader.read_bool() else 0)
    elif kind == _DELETE:
        yield Event("deleted", reader.read_string())
    elif kind == _SET_DATA:
        yield Event("changed", reader.read_string(), reader.read_buffer() or b"")
    elif kind == _MULTI:
        nested = [(reader.read_int(), reader.read_buffer() or b"") for _ in range(reader.read_int())]
        if _ERROR in (one for one, _ in nested):
            return  # it is in the log, and had no effect
        for one, content in nested:
            yield from _zookeeper_events(one, JuteReader(content), session)
    elif kind == _CLOSE_SESSION:
        yield Event("session ended", session=session)
