"""The gate: who a client is, and that no lane takes what was not admitted."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable

import pytest

from millstream.broker.handlers.api_versions import ApiVersionsFamily
from millstream.broker.network.api import Request
from millstream.broker.network.listener import Listener
from millstream.broker.network.request_times import RequestTimes
from millstream.broker.network.router import Router
from millstream.broker.network.session import Session
from millstream.broker.routes import apis
from millstream.wire.api import ApiKey
from tests.framed_requests import framed_request
from tests.manual_clock import ManualClock
from tests.unit.broker.network.test_listener import LIMITS
from tests.unit.broker.network.test_router import handler_of

SOFTWARE = {"client_software_name": "kafka-in-a-box", "client_software_version": "1.2"}


class Lane:
    """Takes the request for which it was opened, whenever it comes again."""

    def __init__(self, request: Request) -> None:
        self.connection = request.connection
        self.frame = bytes(request.frame)

    def take(self, frame: memoryview) -> bool:
        if frame != self.frame:
            return False
        self.connection.reply((struct.pack(">i", 4), b"lane"), 0)
        return True

    def finish_soon(self) -> None:
        self.finish()

    def finish(self) -> None:
        """Nothing was left open."""


class Gate:
    """A listener whose Fetch opens a lane, and a client of it."""

    def __init__(self) -> None:
        self.on_request: Callable[[Request], None] = lambda request: request.open_lane(Lane(request))
        versions = ApiVersionsFamily(apis)
        self.router = Router([handler_of(ApiKey.FETCH, 4, 18, self._fetch), versions.api_versions], spawn=lambda work: work.close())
        self.listener = Listener(self.router, limits=LIMITS, clock=ManualClock(), times=RequestTimes())

    def _fetch(self, request: Request) -> object:
        self.on_request(request)
        return struct.pack(">i", 6), b"router"

    async def connect(self) -> None:
        address = self.listener.bind("127.0.0.1", 0)
        self.listener.start()
        self.reader, self.writer = await asyncio.open_connection(*address)

    async def fetch(self, client_id: bytes = b"me", *, version: int = 4) -> bytes:
        frame = struct.pack(">hhih", ApiKey.FETCH, version, 7, len(client_id)) + client_id
        return await self.send(struct.pack(">i", len(frame)) + frame)

    async def send(self, frame: bytes) -> bytes:
        self.writer.write(frame)
        async with asyncio.timeout(20):
            return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4)))

    @property
    def session(self) -> Session:
        [connection] = self.listener.connections
        return connection.session


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    await gate.connect()
    yield gate
    gate.writer.close()
    gate.listener.close()


async def test_session_knows_what_the_client_has_said(gate: Gate) -> None:
    await gate.fetch(b"me")
    assert gate.session == ("PLAINTEXT", "127.0.0.1", "User:ANONYMOUS", "me", "unknown", "unknown", 0)
    await gate.send(framed_request(ApiKey.API_VERSIONS, 3, correlation_id=1, client_id="you", request=SOFTWARE))
    assert gate.session == ("PLAINTEXT", "127.0.0.1", "User:ANONYMOUS", "you", "kafka-in-a-box", "1.2", 0)


async def test_lane_takes_what_follows_an_admitted_request_until_the_rules_change(gate: Gate) -> None:
    assert [await gate.fetch() for _ in range(3)] == [b"router", b"lane", b"lane"]
    gate.listener.renew_sessions()
    assert [await gate.fetch() for _ in range(3)] == [b"router", b"lane", b"lane"]


async def test_lane_is_closed_when_the_client_becomes_another(gate: Gate) -> None:
    assert [await gate.fetch() for _ in range(2)] == [b"router", b"lane"]
    gate.on_request = lambda _request: None
    assert [await gate.fetch(b"other"), await gate.fetch()] == [b"router", b"router"]


async def test_no_lane_is_opened_for_a_request_that_was_admitted_under_other_rules(gate: Gate) -> None:
    def open_too_late(request: Request) -> None:
        gate.listener.renew_sessions()
        request.open_lane(Lane(request))

    gate.on_request = open_too_late
    assert [await gate.fetch() for _ in range(2)] == [b"router", b"router"]


async def test_version_that_is_not_answered_is_refused_with_the_name_of_the_client(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        await gate.fetch(version=3)
    assert "FETCH version 3: this broker answers 4 to 18 (client id 'me', software unknown unknown)" in caplog.text
