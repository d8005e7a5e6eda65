import asyncio
import errno
import socket
from collections.abc import AsyncIterator

import pytest

from millstream.broker.network.connection import Connection, PendingReply
from millstream.broker.network.listener import ConnectionLimits, Listener
from millstream.broker.network.request_times import RequestTimes
from millstream.errors import StartupError
from tests.manual_clock import ManualClock
from tests.unit.broker.network.test_frame_reader import framed
from tests.waiting import eventually

LIMITS = ConnectionLimits(
    max_frame_size=1 << 20,
    max_connections=100,
    max_connections_per_address=100,
    max_idle_ms=60_000,
    max_half_frame_ms=10_000,
    max_held_bytes=1 << 24,
)


class Waiting:
    """Never answers a request that says `wait`."""

    def __init__(self) -> None:
        self.places: list[PendingReply] = []

    def handle(self, connection: Connection, frame: memoryview) -> None:
        if bytes(frame) == b"wait":
            self.places.append(connection.defer(0))
        else:
            connection.reply((bytes(frame),), 0)


class Entrance:
    """A listener on a free port, and clients of it."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.handler = Waiting()
        self.listener = Listener(self.handler, limits=LIMITS, clock=clock, times=RequestTimes())
        self.address = self.listener.bind("127.0.0.1", 0)
        self.clients: list[socket.socket] = []

    def limit(self, **changes: int) -> None:
        values = {name: getattr(LIMITS, name) for name in ConnectionLimits.__slots__}
        self.listener.limits = ConnectionLimits(**(values | changes))

    async def connect(self) -> socket.socket:
        client = socket.socket()
        client.setblocking(False)
        self.clients.append(client)
        await asyncio.get_running_loop().sock_connect(client, self.address)
        return client

    async def is_refused(self) -> bool:
        client = await self.connect()
        async with asyncio.timeout(20):
            try:
                return await asyncio.get_running_loop().sock_recv(client, 1) == b""
            except ConnectionResetError:
                return True

    async def talk(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, framed(b"ping"))
        async with asyncio.timeout(20):
            assert await loop.sock_recv(client, 4) == b"ping"

    def sweep_after(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        assert self.listener._sweeper is not None
        self.listener._sweeper.cancel()
        self.listener._sweep()


@pytest.fixture
async def entrance(clock: ManualClock) -> AsyncIterator[Entrance]:
    entrance = Entrance(clock)
    entrance.listener.start()
    yield entrance
    entrance.listener.close()
    for client in entrance.clients:
        client.close()


async def test_clients_are_served_and_gone_ones_forgotten(entrance: Entrance) -> None:
    client = await entrance.connect()
    await entrance.talk(client)
    assert len(entrance.listener.connections) == 1
    client.close()
    await eventually(lambda: not entrance.listener.connections)
    assert entrance.listener._per_address == {}


async def test_the_number_of_connections_is_limited_and_can_be_changed(entrance: Entrance) -> None:
    entrance.limit(max_connections=1)
    first = await entrance.connect()
    await entrance.talk(first)
    assert await entrance.is_refused()
    entrance.limit(max_connections=2)
    await entrance.talk(await entrance.connect())
    first.close()
    await eventually(lambda: len(entrance.listener.connections) == 1)
    await entrance.talk(await entrance.connect())


async def test_the_number_of_connections_from_one_address_is_limited(entrance: Entrance) -> None:
    entrance.limit(max_connections_per_address=2)
    for _ in range(2):
        await entrance.talk(await entrance.connect())
    assert await entrance.is_refused()


async def test_idle_connections_are_swept_out_and_busy_ones_are_not(entrance: Entrance) -> None:
    idle, busy, waiting = await entrance.connect(), await entrance.connect(), await entrance.connect()
    for client in (idle, busy):
        await entrance.talk(client)
    await asyncio.get_running_loop().sock_sendall(waiting, framed(b"wait"))
    await eventually(lambda: bool(entrance.handler.places))
    entrance.sweep_after(1)
    await entrance.talk(busy)
    entrance.sweep_after(60_001)
    assert len(entrance.listener.connections) == 2
    await entrance.talk(busy)
    assert await asyncio.get_running_loop().sock_recv(idle, 1) == b""


async def test_a_limit_below_zero_sweeps_no_connection_out(entrance: Entrance) -> None:
    entrance.limit(max_idle_ms=-1)
    client = await entrance.connect()
    await entrance.talk(client)
    entrance.sweep_after(1)
    entrance.sweep_after(10**9)
    await entrance.talk(client)


async def test_a_connection_stuck_in_a_frame_is_closed_sooner(entrance: Entrance) -> None:
    stuck, idle = await entrance.connect(), await entrance.connect()
    await entrance.talk(idle)
    await asyncio.get_running_loop().sock_sendall(stuck, framed(b"half")[:6])
    await eventually(lambda: any(connection.is_inside_frame for connection in entrance.listener.connections))
    entrance.sweep_after(1)
    entrance.sweep_after(10_001)
    assert len(entrance.listener.connections) == 1
    await entrance.talk(idle)


async def test_without_descriptors_it_stops_accepting_for_a_while(entrance: Entrance, monkeypatch: pytest.MonkeyPatch) -> None:
    [really] = entrance.listener._sockets

    class Exhausted(socket.socket):
        def accept(self) -> tuple[socket.socket, tuple[str, int]]:
            raise OSError(errno.EMFILE, "too many open files")

    exhausted = Exhausted(fileno=really.fileno())
    monkeypatch.setattr(entrance.listener, "_sockets", [exhausted])
    entrance.listener._accept(exhausted)
    client = await entrance.connect()
    exhausted.detach()
    monkeypatch.setattr(entrance.listener, "_sockets", [really])
    assert not entrance.listener.connections
    entrance.listener._accept_again(really)
    await entrance.talk(client)


async def test_closing_ends_every_connection_and_may_come_twice(entrance: Entrance) -> None:
    client = await entrance.connect()
    await entrance.talk(client)
    entrance.listener.close()
    entrance.listener.close()
    assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    with pytest.raises(ConnectionRefusedError):
        await entrance.connect()


async def test_a_taken_port_is_one_clear_sentence(entrance: Entrance, clock: ManualClock) -> None:
    other = Listener(entrance.handler, limits=LIMITS, clock=clock, times=RequestTimes())
    with pytest.raises(StartupError, match="another program uses this port"):
        other.bind(*entrance.address)
    with pytest.raises(StartupError, match="cannot listen on no such host"):
        other.bind("no such host", 0)
    with pytest.raises(StartupError, match="cannot listen"):
        other.bind("192.0.2.1", 0)


async def test_connections_that_take_the_descriptors_of_files_are_refused_and_that_is_logged_once(
    entrance: Entrance, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    room = 2
    other = Listener(entrance.handler, limits=LIMITS, clock=clock, times=RequestTimes(), max_connections=lambda: room)
    entrance.address = other.bind("127.0.0.1", 0)
    other.start()
    clients = [await entrance.connect() for _ in range(2)]
    for client in clients:
        await entrance.talk(client)
    assert await entrance.is_refused()
    assert await entrance.is_refused()
    assert caplog.text.count("ulimit -n") == 1
    await entrance.talk(clients[0])
    clients[0].close()
    await eventually(lambda: len(other.connections) == 1)
    await entrance.talk(await entrance.connect())
    room = 3
    await entrance.talk(await entrance.connect())
    other.close()
