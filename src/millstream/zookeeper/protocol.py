"""ZooKeeper's client protocol as values: the handshake, request and reply headers, the bodies of requests. No sockets here.

frame     length int32 | ...
connect   protocol int32, last zxid seen int64, timeout ms int32, session id int64, password buffer [, read only bool]
connected protocol int32, timeout ms int32, session id int64, password buffer [, read only bool]     timeout 0: the session is over
request   xid int32, opcode int32, body
reply     xid int32, zxid int64, error int32, body (none after an error)
event     a reply with xid -1, zxid -1; kind int32, state int32, path
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from millstream.zookeeper.change import decode_acl
from millstream.zookeeper.errors import BadArguments, MarshallingError
from millstream.zookeeper.jute import INT, JuteReader, encode_buffer, encode_string
from millstream.zookeeper.operations import Check, Create, Delete, SetData, TreeOperation
from millstream.zookeeper.watches import WatchEvent
from millstream.zookeeper.znode import ZnodeStat


class Opcode(IntEnum):
    """The requests of ZooKeeper 3.9."""

    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN_2 = 12
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES_2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11


LENGTH = INT
_REQUEST_HEADER = struct.Struct(">ii")
_REPLY_HEADER = struct.Struct(">iiqi")
_CONNECT = struct.Struct(">iqiq")
_CONNECTED = struct.Struct(">iiq")
_MULTI_HEADER = struct.Struct(">ibi")
_STAT = struct.Struct(">qqqqiiiqiiq")
_EVENT = struct.Struct(">ii")

_NOTIFICATION_XID = -1
_SYNC_CONNECTED = 3
_END_OF_MULTI = _MULTI_HEADER.pack(-1, 1, -1)
_CREATE_FLAGS = {0: (False, False), 1: (True, False), 2: (False, True), 3: (True, True)}


class ConnectRequest(NamedTuple):
    """The first frame of a client; session id 0 asks for a new session."""

    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes
    has_read_only: bool


class RequestHeader(NamedTuple):
    """Which request this is; the answer carries the same xid."""

    xid: int
    opcode: int


def decode_connect(frame: bytes) -> ConnectRequest:
    """The handshake; older clients do not send the last field."""
    reader = JuteReader(frame)
    _, last_zxid_seen, timeout_ms, session_id = reader.read_struct(_CONNECT)
    password = reader.read_buffer() or b""
    return ConnectRequest(last_zxid_seen, timeout_ms, session_id, password, has_read_only=reader.remaining > 0)


def encode_connected(*, timeout_ms: int, session_id: int, password: bytes, has_read_only: bool) -> bytes:
    """The answer to the handshake, as a frame."""
    body = _CONNECTED.pack(0, timeout_ms, session_id) + encode_buffer(password) + (b"\x00" if has_read_only else b"")
    return LENGTH.pack(len(body)) + body


def read_request_header(reader: JuteReader) -> RequestHeader:
    """xid and opcode."""
    xid, opcode = reader.read_struct(_REQUEST_HEADER)
    return RequestHeader(xid, opcode)


def encode_reply(xid: int, body: bytes = b"", *, zxid: int, error: int = 0) -> bytes:
    """A reply as a frame."""
    return _REPLY_HEADER.pack(len(body) + 16, xid, zxid, error) + body


def encode_event(event: WatchEvent) -> bytes:
    """A watch event as a frame."""
    body = _EVENT.pack(event.kind.value, _SYNC_CONNECTED) + encode_string(event.path)
    return encode_reply(_NOTIFICATION_XID, body, zxid=-1)


def encode_stat(stat: ZnodeStat) -> bytes:
    """A stat, field by field."""
    return _STAT.pack(*stat)


def encode_names(names: list[str]) -> bytes:
    """A vector of strings."""
    return INT.pack(len(names)) + b"".join([encode_string(name) for name in names])


def read_names(reader: JuteReader) -> list[str]:
    """A vector of strings."""
    return [reader.read_string() for _ in range(reader.read_count(4))]


def read_operation(reader: JuteReader, opcode: int) -> TreeOperation:
    """The body of a request that changes or checks one znode."""
    match opcode:
        case Opcode.CREATE | Opcode.CREATE_2 | Opcode.CREATE_CONTAINER:
            return _read_create(reader, is_container=opcode == Opcode.CREATE_CONTAINER)
        case Opcode.DELETE:
            return Delete(reader.read_string(), reader.read_int())
        case Opcode.SET_DATA:
            return SetData(reader.read_string(), reader.read_buffer(), reader.read_int())
        case Opcode.CHECK:
            return Check(reader.read_string(), reader.read_int())
    raise MarshallingError(f"opcode {opcode} cannot be part of a multi")


def read_multi(reader: JuteReader) -> list[tuple[int, TreeOperation]]:
    """The opcodes and operations of a multi."""
    operations: list[tuple[int, TreeOperation]] = []
    while True:
        opcode, is_done, _ = reader.read_struct(_MULTI_HEADER)
        if is_done:
            return operations
        # ZooKeeper answers a create2 inside a multi as a create.
        operations.append((Opcode.CREATE if opcode == Opcode.CREATE_2 else opcode, read_operation(reader, opcode)))


def encode_result(opcode: int, path: str, stat: ZnodeStat | None) -> bytes:
    """What follows the header of a successful create, set, delete or check."""
    if stat is None or opcode in (Opcode.DELETE, Opcode.CHECK):
        return b""
    if opcode == Opcode.CREATE:
        return encode_string(path)
    if opcode in (Opcode.CREATE_2, Opcode.CREATE_CONTAINER):
        return encode_string(path) + encode_stat(stat)
    return encode_stat(stat)


def encode_multi(opcodes: list[int], results: list[tuple[str, ZnodeStat | None]]) -> bytes:
    """The body of the answer to a multi that succeeded."""
    parts = [
        _MULTI_HEADER.pack(opcode, 0, 0) + encode_result(opcode, path, stat) for opcode, (path, stat) in zip(opcodes, results, strict=True)
    ]
    return b"".join(parts) + _END_OF_MULTI


def encode_failed_multi(errors: list[int]) -> bytes:
    """The body of the answer to a multi that failed: an error per operation, under a reply header that says 0."""
    return b"".join([_MULTI_HEADER.pack(-1, 0, error) + INT.pack(error) for error in errors]) + _END_OF_MULTI


def _read_create(reader: JuteReader, *, is_container: bool) -> Create:
    path = reader.read_string()
    data = reader.read_buffer()
    requested = decode_acl(reader)
    flags = reader.read_int()
    if is_container:
        return Create(path, data, False, False, requested, True)
    if flags not in _CREATE_FLAGS:
        raise BadArguments(f"{flags} is not a kind of znode that can be created here")
    ephemeral, sequential = _CREATE_FLAGS[flags]
    return Create(path, data, ephemeral, sequential, requested)


def check_length(length: int, *, limit: int) -> None:
    """Refuse a frame before a byte of it is kept."""
    if not 0 <= length <= limit:
        raise MarshallingError(f"a frame of {length} bytes; the limit is {limit}")
