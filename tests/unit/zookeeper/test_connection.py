"""The connection and the server behind it, spoken to in bytes."""

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.zookeeper.errors import NoNode
from millstream.zookeeper.jute import encode_string
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.operations import Create
from millstream.zookeeper.protocol import Opcode
from millstream.zookeeper.server import CoordinationServer
from millstream.zookeeper.watches import WatchKind
from tests.manual_clock import ManualClock
from tests.unit.zookeeper.failing_files import FailingFiles
from tests.unit.zookeeper.raw_client import RawClient, create_body, path_body, ping, version_body


class Served:
    """A keeper, its server and its disk."""

    def __init__(self, keeper: TreeKeeper, *, files: FailingFiles, clock: ManualClock) -> None:
        self.keeper = keeper
        self.files = files
        self.clock = clock
        self.server = CoordinationServer(keeper, max_frame_bytes=100_000, max_connections=5, max_sessions=8)
        self.port = 0


@pytest.fixture
async def served(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Served]:
    files = FailingFiles()
    served = Served(await TreeKeeper.open(tmp_path, files=files, clock=clock), files=files, clock=clock)
    served.port = await served.server.start("127.0.0.1", 0)
    yield served
    files.gate.set()
    await served.server.close()
    await served.keeper.close()


@pytest.fixture
async def client(served: Served) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(served.port)
    yield client
    await client.close()


async def test_the_session_timeout_is_negotiated_between_bounds(served: Served) -> None:
    for asked, given in ((10_000, 10_000), (1, 500), (10**9, 60_000), (-5, 500)):
        client = await RawClient.connect(served.port, timeout_ms=asked)
        assert client.timeout_ms == given
        await client.close()


async def test_a_session_is_taken_up_again_with_its_password_only(served: Served, client: RawClient) -> None:
    await client.request(Opcode.CREATE, create_body("/e", flags=1))
    await client.close()
    thief = await RawClient.connect(served.port, session_id=client.session_id, password=b"x" * 16)
    assert (thief.timeout_ms, thief.session_id, await thief.rest()) == (0, 0, b"")
    again = await RawClient.connect(served.port, session_id=client.session_id, password=client.password)
    assert again.session_id == client.session_id
    assert (await again.request(Opcode.EXISTS, path_body("/e"))).error == 0
    await again.close()


async def test_the_session_of_a_broker_cannot_be_taken_up_from_outside(served: Served) -> None:
    session = served.keeper.open_session(0, name="broker-1")
    thief = await RawClient.connect(served.port, session_id=session.session_id, password=session.password)
    assert (thief.timeout_ms, await thief.rest()) == (0, b"")


async def test_a_session_that_moves_leaves_its_old_connection(served: Served, client: RawClient) -> None:
    again = await RawClient.connect(served.port, session_id=client.session_id, password=client.password)
    assert await client.rest() == b""
    assert (await ping(again)).error == 0
    await again.close()


async def test_a_client_that_has_seen_a_later_tree_is_not_let_in(served: Served) -> None:
    client = await RawClient.open(served.port)
    client.send(struct.pack(">iqiq", 0, 2**60, 1000, 0) + struct.pack(">i", 16) + bytes(16))
    assert await client.rest() == b""


async def test_replies_come_in_the_order_of_the_requests_also_while_the_disk_is_slow(served: Served, client: RawClient) -> None:
    served.files.gate.clear()
    client.ask(Opcode.CREATE, create_body("/a"))
    client.ask(Opcode.GET_DATA, path_body("/a"))
    client.ask(Opcode.CREATE, create_body("/b"))
    client.ask(Opcode.PING, xid=-2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.reply()
    served.files.gate.set()
    assert [(await client.reply()).xid for _ in range(4)] == [1, 2, 3, -2]


async def test_an_answered_read_does_not_wait_for_the_disk_of_others(served: Served, client: RawClient) -> None:
    writer = await RawClient.connect(served.port)
    served.files.gate.clear()
    writer.ask(Opcode.CREATE, create_body("/slow"))
    assert (await client.request(Opcode.GET_CHILDREN, path_body("/"))).error == 0
    served.files.gate.set()
    assert (await writer.reply()).error == 0
    await writer.close()


async def test_a_watch_event_comes_before_the_read_that_shows_the_change(served: Served, client: RawClient) -> None:
    await client.request(Opcode.EXISTS, path_body("/a", watch=True))
    served.keeper.execute([Create("/a")], session_id=0)
    assert (await client.request(Opcode.GET_DATA, path_body("/a"))).error == 0
    assert client.events == [struct.pack(">ii", WatchKind.CREATED.value, 3) + encode_string("/a")]


async def test_closing_the_session_removes_its_ephemeral_znodes_before_the_answer(served: Served, client: RawClient) -> None:
    await client.request(Opcode.CREATE, create_body("/e", flags=1))
    assert (await client.request(Opcode.CLOSE_SESSION)).error == 0
    assert await client.rest() == b""
    assert "/e" not in served.keeper.tree.nodes


async def test_an_expired_session_loses_its_connection(served: Served, client: RawClient) -> None:
    for _ in range(102):
        served.clock.advance(100)
        served.keeper.tick()
    assert await client.rest() == b""
    again = await RawClient.connect(served.port, session_id=client.session_id, password=client.password)
    assert (again.timeout_ms, await again.rest()) == (0, b"")


async def test_a_dead_disk_drops_the_clients_and_answers_none(served: Served, client: RawClient) -> None:
    served.files.is_sync_failing = True
    client.ask(Opcode.CREATE, create_body("/a"))
    assert await client.rest() == b""
    late = await RawClient.open(served.port)
    late.send_raw(b"ruok")
    assert await late.rest() == b"the journal cannot be written"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        struct.pack(">i", 100_001),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 32) + bytes(24) + b"\x7f\xff\xff\xff" + bytes(4),
    ],
)
async def test_garbage_instead_of_a_handshake_closes_the_connection(served: Served, client: RawClient, garbage: bytes) -> None:
    stranger = await RawClient.open(served.port)
    stranger.send_raw(garbage)
    assert await stranger.rest() == b""
    assert (await ping(client)).error == 0


async def test_a_malformed_request_is_answered_with_an_error(served: Served, client: RawClient) -> None:
    assert (await client.request(Opcode.CREATE, b"\x00\x00\x00\x05ab")).error == -5
    assert (await ping(client)).error == 0


async def test_an_unknown_request_is_answered_and_ends_the_connection(served: Served, client: RawClient) -> None:
    assert (await client.request(4711)).error == -6
    assert await client.rest() == b""


async def test_a_request_that_is_known_and_not_implemented_leaves_the_connection(served: Served, client: RawClient) -> None:
    for opcode in (Opcode.CREATE_TTL, Opcode.ADD_WATCH, Opcode.RECONFIG, Opcode.REMOVE_WATCHES):
        assert (await client.request(opcode)).error == -6
    assert (await ping(client)).error == 0


async def test_a_frame_may_come_byte_by_byte(served: Served, client: RawClient) -> None:
    body = struct.pack(">ii", 9, Opcode.EXISTS) + path_body("/zookeeper")
    for byte in struct.pack(">i", len(body)) + body:
        client.send_raw(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.reply()).xid == 9


async def test_a_peer_that_never_reads_is_not_read_from(served: Served) -> None:
    served.keeper.execute([Create("/big", bytes(90_000))], session_id=0)
    await served.keeper.durability.wait()
    peer = await RawClient.connect(served.port)
    for _ in range(2_000):
        peer.ask(Opcode.GET_DATA, path_body("/big"))
    received = -1
    while received != served.server.received:
        received = served.server.received
        await asyncio.sleep(0.05)
    assert received < 200
    replies = [await peer.reply() for _ in range(2_000)]
    assert [reply.xid for reply in replies] == list(range(1, 2_001))
    await peer.close()


async def test_a_flood_of_requests_leaves_the_loop_to_others(served: Served, client: RawClient) -> None:
    flooder = await RawClient.connect(served.port)
    for _ in range(5_000):
        flooder.ask(Opcode.EXISTS, path_body("/zookeeper"))
    turns, done = 0, asyncio.Event()

    async def take_turns() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    assert [(await flooder.reply()).xid for _ in range(5_000)] == list(range(1, 5_001))
    done.set()
    await others
    assert turns >= 5_000 / 50
    assert (await ping(client)).error == 0
    await flooder.close()


async def test_too_many_connections_are_refused(served: Served, client: RawClient) -> None:
    others = [await RawClient.connect(served.port) for _ in range(4)]
    refused = await RawClient.open(served.port)
    assert await refused.rest() == b""
    for other in others:
        await other.close()
    assert (await ping(client)).error == 0


async def test_too_many_sessions_are_refused(served: Served) -> None:
    for _ in range(8):
        await (await RawClient.connect(served.port)).close()
    refused = await RawClient.open(served.port)
    refused.send(struct.pack(">iqiq", 0, 0, 1000, 0) + struct.pack(">i", 16) + bytes(16))
    assert await refused.rest() == b""


async def test_a_client_that_left_leaves_no_watches(served: Served, client: RawClient) -> None:
    await client.request(Opcode.EXISTS, path_body("/a", watch=True))
    assert len(served.keeper.watches) == 1
    await client.close()
    for _ in range(1_000):
        if len(served.keeper.watches) == 0:
            return
        await asyncio.sleep(0.01)
    pytest.fail("the watch is still there")


async def test_closing_the_server_keeps_the_sessions(served: Served, client: RawClient) -> None:
    await client.request(Opcode.CREATE, create_body("/e", flags=1))
    await served.server.close()
    assert await client.rest() == b""
    assert "/e" in served.keeper.tree.nodes
    assert client.session_id in served.keeper.tree.sessions


async def test_deleting_what_is_not_there_names_the_error(client: RawClient) -> None:
    assert (await client.request(Opcode.DELETE, version_body("/missing"))).error == NoNode.code
