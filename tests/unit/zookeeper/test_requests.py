"""What the requests of ZooKeeper's protocol answer, byte for byte where it matters."""

import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.files import Files
from millstream.zookeeper.acl import ALL_PERMISSIONS, ANYONE, READ, AclEntry, Identity, digest_identity
from millstream.zookeeper.change import encode_acl
from millstream.zookeeper.jute import JuteReader, encode_buffer, encode_string
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.operations import Create, Delete, SetData
from millstream.zookeeper.protocol import Opcode
from millstream.zookeeper.requests import HANDLERS, KNOWN_BUT_UNIMPLEMENTED
from millstream.zookeeper.server import CoordinationServer
from millstream.zookeeper.watches import WatchKind
from millstream.zookeeper.znode import CONTAINER_OWNER
from tests.manual_clock import ManualClock
from tests.unit.zookeeper.raw_client import (
    RawClient,
    create_body,
    multi_body,
    path_body,
    set_body,
    set_watches_body,
    version_body,
)

STAT_SIZE = 68
AUTH_ALICE = struct.pack(">i", 0) + encode_string("digest") + encode_buffer(b"alice:secret")


@pytest.fixture
async def keeper(tmp_path: Path, clock: ManualClock) -> AsyncIterator[TreeKeeper]:
    keeper = await TreeKeeper.open(tmp_path, files=Files(), clock=clock)
    yield keeper
    await keeper.close()


@pytest.fixture
async def port(keeper: TreeKeeper) -> AsyncIterator[int]:
    server = CoordinationServer(keeper)
    yield await server.start()
    await server.close()


@pytest.fixture
async def client(port: int) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(port)
    yield client
    await client.close()


def test_every_opcode_is_answered_or_known_to_be_missing() -> None:
    assert HANDLERS.keys() | KNOWN_BUT_UNIMPLEMENTED == set(Opcode) - {Opcode.NOTIFICATION, Opcode.CLOSE_SESSION}


async def test_create_answers_the_path_and_create2_the_stat_as_well(client: RawClient) -> None:
    assert (await client.request(Opcode.CREATE, create_body("/a", b"x"))).body == encode_string("/a")
    body = (await client.request(Opcode.CREATE_2, create_body("/b-", b"xyz", flags=2))).body
    assert body.startswith(encode_string("/b-0000000001"))
    assert len(body) == len(encode_string("/b-0000000001")) + STAT_SIZE


async def test_a_container_is_created_and_a_ttl_znode_is_not(client: RawClient, keeper: TreeKeeper) -> None:
    assert (await client.request(Opcode.CREATE_CONTAINER, create_body("/c", flags=4))).error == 0
    assert keeper.tree.nodes["/c"].owner == CONTAINER_OWNER
    assert (await client.request(Opcode.CREATE_TTL, create_body("/t", flags=5) + struct.pack(">q", 1000))).error == -6
    assert (await client.request(Opcode.CREATE, create_body("/t", flags=5))).error == -8


async def test_null_data_is_not_empty_data(client: RawClient) -> None:
    await client.request(Opcode.CREATE, create_body("/null", None))
    await client.request(Opcode.CREATE, create_body("/empty", b""))
    assert (await client.request(Opcode.GET_DATA, path_body("/null"))).body[:4] == struct.pack(">i", -1)
    assert (await client.request(Opcode.GET_DATA, path_body("/empty"))).body[:4] == struct.pack(">i", 0)


async def test_children_come_with_a_stat_where_it_is_asked_for(client: RawClient) -> None:
    names = struct.pack(">i", 1) + encode_string("zookeeper")
    assert (await client.request(Opcode.GET_CHILDREN, path_body("/"))).body == names
    body = (await client.request(Opcode.GET_CHILDREN_2, path_body("/"))).body
    assert body.startswith(names)
    assert len(body) == len(names) + STAT_SIZE


async def test_sync_answers_the_path(client: RawClient) -> None:
    assert (await client.request(Opcode.SYNC, encode_string("/a"))).body == encode_string("/a")


async def test_a_multi_answers_every_operation(client: RawClient) -> None:
    operations = multi_body(
        (Opcode.CREATE, create_body("/a")),
        (Opcode.CHECK, version_body("/a", 0)),
        (Opcode.SET_DATA, set_body("/a", b"x", 0)),
        (Opcode.DELETE, version_body("/a", 1)),
    )
    body = (await client.request(Opcode.MULTI, operations)).body
    reader = JuteReader(body)
    header = struct.Struct(">ibi")
    assert reader.read_struct(header) == (Opcode.CREATE, 0, 0)
    assert reader.read_string() == "/a"
    assert reader.read_struct(header) == (Opcode.CHECK, 0, 0)
    assert reader.read_struct(header) == (Opcode.SET_DATA, 0, 0)
    reader.read_struct(struct.Struct(f">{STAT_SIZE}b"))
    assert reader.read_struct(header) == (Opcode.DELETE, 0, 0)
    assert reader.read_struct(header) == (-1, 1, -1)
    assert reader.remaining == 0


async def test_a_failed_multi_answers_zero_then_the_error_then_not_tried(client: RawClient) -> None:
    operations = multi_body(
        (Opcode.CREATE, create_body("/a")), (Opcode.DELETE, version_body("/missing")), (Opcode.CREATE, create_body("/b"))
    )
    reply = await client.request(Opcode.MULTI, operations)
    expected = b"".join(struct.pack(">ibii", -1, 0, error, error) for error in (0, -101, -2)) + struct.pack(">ibi", -1, 1, -1)
    assert (reply.error, reply.body) == (0, expected)


async def test_credentials_open_what_they_closed(client: RawClient, port: int) -> None:
    alice = digest_identity(b"alice:secret")
    assert (await client.request(Opcode.AUTH, AUTH_ALICE, xid=-4)).error == 0
    mine = (AclEntry(ALL_PERMISSIONS, Identity("auth", "")),)
    assert (await client.request(Opcode.CREATE, create_body("/a", b"secret", acl=mine))).error == 0
    shown = (await client.request(Opcode.GET_ACL, encode_string("/a"))).body
    assert shown.startswith(encode_acl((AclEntry(ALL_PERMISSIONS, alice),)))
    stranger = await RawClient.connect(port)
    assert (await stranger.request(Opcode.GET_DATA, path_body("/a"))).error == -102
    assert (await stranger.request(Opcode.GET_ACL, encode_string("/a"))).error == -102
    assert (await stranger.request(Opcode.AUTH, AUTH_ALICE, xid=-4)).error == 0
    assert (await stranger.request(Opcode.GET_DATA, path_body("/a"))).error == 0
    await stranger.close()


async def test_a_digest_is_not_shown_to_who_may_not_change_the_list(client: RawClient, port: int) -> None:
    await client.request(Opcode.AUTH, AUTH_ALICE, xid=-4)
    await client.request(Opcode.CREATE, create_body("/a"))
    mixed = (AclEntry(READ, ANYONE), AclEntry(ALL_PERMISSIONS, digest_identity(b"alice:secret")))
    set_acl = encode_string("/a") + encode_acl(mixed) + struct.pack(">i", -1)
    assert len((await client.request(Opcode.SET_ACL, set_acl)).body) == STAT_SIZE
    stranger = await RawClient.connect(port)
    shown = (await stranger.request(Opcode.GET_ACL, encode_string("/a"))).body
    assert b"alice:x" in shown
    await stranger.close()


async def test_a_client_that_may_not_read_a_znode_hears_nothing_of_it(client: RawClient, port: int) -> None:
    stranger = await RawClient.connect(port)
    for path in ("/open", "/closed"):
        await stranger.request(Opcode.EXISTS, path_body(path, watch=True))
    await client.request(Opcode.AUTH, AUTH_ALICE, xid=-4)
    await client.request(Opcode.CREATE, create_body("/closed", acl=(AclEntry(ALL_PERMISSIONS, Identity("auth", "")),)))
    await client.request(Opcode.CREATE, create_body("/open"))
    await stranger.request(Opcode.PING, xid=-2)
    assert stranger.events == [struct.pack(">ii", WatchKind.CREATED.value, 3) + encode_string("/open")]
    await stranger.close()


async def test_a_client_learns_its_identities_and_what_they_own(client: RawClient) -> None:
    await client.request(Opcode.AUTH, AUTH_ALICE, xid=-4)
    own = encode_string("digest") + encode_string("alice") + encode_string("ip") + encode_string("127.0.0.1")
    assert (await client.request(Opcode.WHO_AM_I)).body == struct.pack(">i", 2) + own
    await client.request(Opcode.CREATE, create_body("/a"))
    await client.request(Opcode.CREATE, create_body("/a/e", flags=1))
    assert (await client.request(Opcode.GET_EPHEMERALS, encode_string("/a"))).body == struct.pack(">i", 1) + encode_string("/a/e")
    assert (await client.request(Opcode.GET_EPHEMERALS, encode_string("/b"))).body == struct.pack(">i", 0)
    assert (await client.request(Opcode.GET_ALL_CHILDREN_NUMBER, encode_string("/a"))).body == struct.pack(">i", 1)
    assert (await client.request(Opcode.GET_ALL_CHILDREN_NUMBER, encode_string("/"))).body == struct.pack(">i", 5)


async def test_unknown_credentials_end_the_connection(client: RawClient) -> None:
    body = struct.pack(">i", 0) + encode_string("kerberos") + encode_buffer(b"")
    assert (await client.request(Opcode.AUTH, body, xid=-4)).error == -115
    assert await client.rest() == b""


async def test_a_client_that_was_away_hears_what_it_missed(client: RawClient, port: int, keeper: TreeKeeper) -> None:
    for name in ("changed", "deleted", "parent", "same"):
        keeper.execute([Create(f"/{name}")], session_id=0)
    seen = keeper.tree.last_zxid
    keeper.execute([SetData("/changed", b"x")], session_id=0)
    keeper.execute([Delete("/deleted")], session_id=0)
    keeper.execute([Create("/parent/child")], session_id=0)
    keeper.execute([Create("/new")], session_id=0)
    body = set_watches_body(
        seen, data=["/changed", "/deleted", "/same"], exists=["/new", "/later"], children=["/parent", "/deleted", "/same"]
    )
    assert (await client.request(Opcode.SET_WATCHES, body, xid=-8)).error == 0
    expected = [
        (WatchKind.CHANGED, "/changed"),
        (WatchKind.DELETED, "/deleted"),
        (WatchKind.CREATED, "/new"),
        (WatchKind.CHILDREN, "/parent"),
        (WatchKind.DELETED, "/deleted"),
    ]
    assert client.events == [struct.pack(">ii", kind.value, 3) + encode_string(path) for kind, path in expected]
    client.events.clear()
    keeper.execute([Create("/later"), SetData("/same", b""), Create("/same/child")], session_id=0)
    await client.request(Opcode.PING, xid=-2)
    assert len(client.events) == 3
