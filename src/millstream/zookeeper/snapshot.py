"""The whole tree in one file, so that a start replays a short journal instead of a long history.

    "MLSTTREE" | CRC-32 of the rest, uint32 | format int32 | last zxid int64
    sessions   count int32 | id int64, timeout int32, password, name
    znodes     count int32 | path, data, access list, owner int64, czxid, mzxid, pzxid, ctime, mtime int64, version, aversion, creates int32

Parents stand before their children. A snapshot is written whole and renamed into place, so it is either there and right or damaged by
something else than a crash: then `decode_snapshot` raises, and no empty tree takes its place.
"""

import struct
import zlib

from millstream.zookeeper.acl import OPEN_TO_ALL
from millstream.zookeeper.change import SessionOpened, decode_acl, encode_acl
from millstream.zookeeper.errors import MarshallingError
from millstream.zookeeper.jute import INT, JuteReader, encode_buffer, encode_string
from millstream.zookeeper.tree import Session, Tree
from millstream.zookeeper.znode import Znode

_MAGIC = b"MLSTTREE"
_FORMAT = 1
_CRC = struct.Struct(">I")
_PREFIX = struct.Struct(">iq")
_SESSION = struct.Struct(">qi")
_ZNODE = struct.Struct(">qqqqqqiii")
_SMALLEST_SESSION = 20
_SMALLEST_ZNODE = 72


def encode_snapshot(tree: Tree) -> bytes:
    """The bytes of the tree as it is now."""
    parts = [_PREFIX.pack(_FORMAT, tree.last_zxid), INT.pack(len(tree.sessions))]
    for session in tree.sessions.values():
        parts.append(_SESSION.pack(session.session_id, session.timeout_ms))
        parts.append(encode_buffer(session.password))
        parts.append(encode_string(session.name))
    parts.append(INT.pack(len(tree.nodes)))
    for path in sorted(tree.nodes):
        parts.extend(_encode_znode(path, tree.nodes[path]))
    body = b"".join(parts)
    return _MAGIC + _CRC.pack(zlib.crc32(body)) + body


def decode_snapshot(content: bytes) -> Tree:
    """The tree in these bytes; `MarshallingError` if they are damaged or of a format this version does not know."""
    body_start = len(_MAGIC) + _CRC.size
    if content[: len(_MAGIC)] != _MAGIC or len(content) < body_start:
        raise MarshallingError("not a snapshot")
    if _CRC.unpack_from(content, len(_MAGIC))[0] != zlib.crc32(memoryview(content)[body_start:]):
        raise MarshallingError("the checksum of the snapshot is wrong")
    reader = JuteReader(content, body_start)
    file_format, last_zxid = reader.read_struct(_PREFIX)
    if file_format != _FORMAT:
        raise MarshallingError(f"snapshot format {file_format} is not known here")
    tree = Tree()
    tree.last_zxid, tree.next_zxid = last_zxid, last_zxid + 1
    for _ in range(reader.read_count(_SMALLEST_SESSION)):
        session_id, timeout_ms = reader.read_struct(_SESSION)
        opened = SessionOpened(session_id, timeout_ms, reader.read_buffer() or b"", reader.read_string())
        tree.sessions[session_id] = Session(opened)
    for _ in range(reader.read_count(_SMALLEST_ZNODE)):
        path, node = _decode_znode(reader)
        tree.restore(path, node)
    return tree


def _encode_znode(path: str, node: Znode) -> tuple[bytes, bytes, bytes, bytes]:
    encoded_acl = b"\x00\x00\x00\x00" if node.acl is OPEN_TO_ALL else encode_acl(node.acl)
    numbers = _ZNODE.pack(
        node.owner, node.czxid, node.mzxid, node.pzxid, node.ctime_ms, node.mtime_ms, node.version, node.aversion, node.creates
    )
    return encode_string(path), encode_buffer(node.data), encoded_acl, numbers


def _decode_znode(reader: JuteReader) -> tuple[str, Znode]:
    path = reader.read_string()
    node = Znode(reader.read_buffer(), decode_acl(reader) or OPEN_TO_ALL, owner=0, zxid=0, time_ms=0)
    (
        node.owner,
        node.czxid,
        node.mzxid,
        node.pzxid,
        node.ctime_ms,
        node.mtime_ms,
        node.version,
        node.aversion,
        node.creates,
    ) = reader.read_struct(_ZNODE)
    return path, node
