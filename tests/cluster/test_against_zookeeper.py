"""The same requests, drawn at random, to the embedded server and to a real ZooKeeper: the answers and the watch events are the same.

Left out of the comparison is what differs by nature: transaction numbers, times and session ids.
"""

import random
import struct
import uuid

import pytest

from millstream.zookeeper.acl import ALL_PERMISSIONS, ANYONE, OPEN_TO_ALL, READ, Acl, AclEntry, Identity
from millstream.zookeeper.change import decode_acl, encode_acl
from millstream.zookeeper.jute import JuteReader, encode_buffer, encode_string
from millstream.zookeeper.protocol import Opcode
from tests.cluster.server_process import ServerProcess
from tests.unit.zookeeper.raw_client import (
    RawClient,
    Reply,
    create_body,
    multi_body,
    path_body,
    ping,
    set_body,
    set_watches_body,
    version_body,
)

STAT = struct.Struct(">qqqqiiiqiiq")
MULTI_HEADER = struct.Struct(">ibi")
ACLS: list[Acl] = [
    OPEN_TO_ALL,
    (AclEntry(READ, ANYONE),),
    (AclEntry(ALL_PERMISSIONS, Identity("auth", "")),),
    (AclEntry(ALL_PERMISSIONS, Identity("digest", "alice:hash")),),
    (AclEntry(ALL_PERMISSIONS, Identity("nonsense", "x")),),
    (),
]
Request = tuple[int, bytes]


class Script:
    """Draws requests over a handful of paths, so that they meet."""

    def __init__(self, seed: int, root: str) -> None:
        self._random = random.Random(seed)
        self._root = root

    def request(self) -> Request:
        pick = self._random.random()
        if pick < 0.1:
            return Opcode.MULTI, multi_body(*[self._operation_of_multi() for _ in range(self._random.randint(0, 4))])
        if pick < 0.15:
            return Opcode.SET_ACL, encode_string(self._path()) + encode_acl(self._random.choice(ACLS)) + self._version()
        if pick < 0.55:
            return self._operation()
        return self._read()

    def _operation(self) -> Request:
        opcode = self._random.choice([Opcode.CREATE, Opcode.CREATE, Opcode.CREATE_2, Opcode.DELETE, Opcode.SET_DATA])
        if opcode in (Opcode.CREATE, Opcode.CREATE_2):
            acl = self._random.choice(ACLS) if self._random.random() < 0.1 else OPEN_TO_ALL
            return opcode, create_body(self._path(), self._data(), flags=self._random.choice([0, 0, 1, 2, 3]), acl=acl)
        if opcode is Opcode.SET_DATA:
            return opcode, set_body(self._path(), self._data(), self._random.choice([-1, -1, 0, 1, 2]))
        return opcode, version_body(self._path(), self._random.choice([-1, -1, 0, 1, 2]))

    def _operation_of_multi(self) -> Request:
        if self._random.random() < 0.2:
            return Opcode.CHECK, version_body(self._path(), self._random.choice([-1, 0, 1]))
        return self._operation()

    def _read(self) -> Request:
        opcode = self._random.choice([Opcode.EXISTS, Opcode.GET_DATA, Opcode.GET_CHILDREN, Opcode.GET_CHILDREN_2, Opcode.GET_ACL])
        if opcode is Opcode.GET_ACL:
            return opcode, encode_string(self._path())
        return opcode, path_body(self._path(), watch=self._random.random() < 0.5)

    def _path(self) -> str:
        if self._random.random() < 0.03:
            return self._random.choice(["relative", self._root + "/", self._root + "//x", self._root + "/../x", self._root + "/\x01"])
        names = [self._random.choice("abc") for _ in range(self._random.randint(1, 3))]
        return "/".join([self._root, *names])

    def _data(self) -> bytes | None:
        return self._random.choice([b"", b"x", b"data", None])

    def _version(self) -> bytes:
        return struct.pack(">i", self._random.choice([-1, 0, 1]))


def described(opcode: int, reply: Reply, sessions: list[int]) -> object:
    """A reply without what differs by nature."""
    if reply.error or not reply.body:
        return reply.error, len(reply.body)
    return described_body(opcode, JuteReader(reply.body), sessions)


def described_body(opcode: int, reader: JuteReader, sessions: list[int]) -> object:
    match opcode:
        case Opcode.CREATE:
            return reader.read_string()
        case Opcode.CREATE_2:
            return reader.read_string(), described_stat(reader, sessions)
        case Opcode.SET_DATA | Opcode.EXISTS | Opcode.SET_ACL:
            return described_stat(reader, sessions)
        case Opcode.GET_DATA:
            return reader.read_buffer(), described_stat(reader, sessions)
        case Opcode.GET_CHILDREN | Opcode.GET_CHILDREN_2:
            names = sorted(reader.read_string() for _ in range(reader.read_count(4)))
            return names, described_stat(reader, sessions) if reader.remaining else None
        case Opcode.GET_ACL:
            return decode_acl(reader), described_stat(reader, sessions)
        case Opcode.MULTI:
            return described_multi(reader, sessions)
    return None


def described_multi(reader: JuteReader, sessions: list[int]) -> object:
    results: list[object] = []
    while True:
        opcode, is_done, error = reader.read_struct(MULTI_HEADER)
        if is_done:
            return results
        if opcode == -1:
            results.append((error, reader.read_int()))
        elif opcode in (Opcode.DELETE, Opcode.CHECK):
            results.append(opcode)
        else:
            results.append((opcode, described_body(opcode, reader, sessions)))


def described_stat(reader: JuteReader, sessions: list[int]) -> object:
    fields = reader.read_struct(STAT)
    owner = sessions.index(fields[7]) + 1 if fields[7] else 0
    return fields[4:7], owner, fields[8:10], fields[0] == fields[1], fields[1] == fields[10]


async def observe(port: int, seed: int, root: str) -> list[object]:
    """Play the script with three sessions in turn, the third of them leaving half way; note every answer and event."""
    clients = [await RawClient.connect(port) for _ in range(3)]
    sessions = [client.session_id for client in clients]
    script, order = Script(seed, root), random.Random(seed)
    await clients[0].request(Opcode.CREATE, create_body(root))
    await clients[1].request(Opcode.AUTH, struct.pack(">i", 0) + encode_string("digest") + encode_buffer(b"bob:pw"), xid=-4)
    notes: list[object] = []
    for step in range(250):
        if step == 125:
            await clients[2].request(Opcode.CLOSE_SESSION)
            await clients.pop().close()
        client = order.choice(clients)
        opcode, body = script.request()
        notes.append((step, opcode, described(opcode, await client.request(opcode, body), sessions)))
        for other in clients:
            await ping(other)
            notes.append(sorted(other.events))
            other.events.clear()
    missed = set_watches_body(0, data=[root, root + "/none"], exists=[root, root + "/none"], children=[root, root + "/none"])
    await clients[0].request(Opcode.SET_WATCHES, missed, xid=-8)
    notes.append(sorted(clients[0].events))
    for client in clients:
        await client.request(Opcode.CLOSE_SESSION)
        await client.close()
    return notes


@pytest.mark.parametrize("seed", range(12))
async def test_the_embedded_server_answers_as_zookeeper_does(zookeeper: ServerProcess, server_port: int, seed: int) -> None:
    root = f"/same-{uuid.uuid4().hex}"
    real, embedded = await observe(zookeeper.port, seed, root), await observe(server_port, seed, root)
    for ours, theirs in zip(embedded, real, strict=True):
        assert ours == theirs
