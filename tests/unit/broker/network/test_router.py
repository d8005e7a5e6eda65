import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from millstream.broker.network.api import Fields, Forwarding, Handler, Request, api
from millstream.broker.network.connection import Connection
from millstream.broker.network.frame_reader import ReceiveBuffers
from millstream.broker.network.request_times import RequestTimes
from millstream.broker.network.router import Router
from millstream.broker.network.session import Session
from millstream.errors import InvalidRequest, MalformedFrame, NotController
from millstream.wire import messages
from millstream.wire.api import ApiKey
from millstream.wire.frames import read_response_header
from tests.unit.broker.conftest import Ends


def handler_of(key: ApiKey, lowest: int, highest: int, answer: Callable[[Request], Any]) -> Handler:
    @api(key, lowest, highest)
    def handle(request: Request) -> Any:
        return answer(request)

    return handle


class Exchange:
    """A router behind one connection."""

    def __init__(self, ends: Ends) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.client = ends.client
        self.client.setblocking(False)
        self._broker = ends.broker

    def route(self, *handlers: Handler) -> None:
        self.router = Router(handlers, spawn=self._spawn)
        self.connection = Connection(
            self._broker,
            peer="peer:1",
            handler=self.router,
            buffers=ReceiveBuffers(max_held_bytes=1 << 24),
            max_frame_size=1 << 20,
            times=RequestTimes(),
            on_close=lambda _connection: None,
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def ask(self, key: int, version: int, correlation_id: int = 7, body: bytes = b"\x00") -> None:
        frame = struct.pack(">hhih", key, version, correlation_id, -1) + body
        await asyncio.get_running_loop().sock_sendall(self.client, struct.pack(">i", len(frame)) + frame)

    async def answer(self) -> bytes | None:
        async with asyncio.timeout(20):
            size = await asyncio.get_running_loop().sock_recv(self.client, 4)
            if not size:
                return None
            return await asyncio.get_running_loop().sock_recv(self.client, int.from_bytes(size, "big"))


@pytest.fixture
async def exchange(ends: Ends) -> AsyncIterator[Exchange]:
    exchange = Exchange(ends)
    yield exchange
    exchange.connection.close()
    await asyncio.gather(*exchange.tasks, return_exceptions=True)


COORDINATOR: Fields = {"error_code": 0, "error_message": None, "node_id": 1, "host": "here", "port": 9}


async def test_fields_are_encoded_in_the_version_that_was_asked(exchange: Exchange) -> None:
    exchange.route(handler_of(ApiKey.FIND_COORDINATOR, 0, 3, lambda _request: COORDINATOR))
    for version in (0, 3):
        await exchange.ask(ApiKey.FIND_COORDINATOR, version, correlation_id=version + 40)
        frame = await exchange.answer()
        assert frame is not None
        correlation_id, start = read_response_header(frame, api_key=ApiKey.FIND_COORDINATOR, version=version)
        assert correlation_id == version + 40
        assert messages.decode_response(ApiKey.FIND_COORDINATOR, version, body=frame, start=start).host == "here"


async def test_chunks_go_out_as_they_are_and_nothing_is_nothing(exchange: Exchange) -> None:
    def answer(request: Request) -> object:
        return None if request.correlation_id == 1 else (struct.pack(">i", 4), b"done")

    exchange.route(handler_of(ApiKey.FETCH, 4, 18, answer))
    await exchange.ask(ApiKey.FETCH, 4, correlation_id=1)
    await exchange.ask(ApiKey.FETCH, 4, correlation_id=2)
    assert await exchange.answer() == b"done"


async def test_an_answer_that_takes_time_keeps_its_place(exchange: Exchange) -> None:
    may_go_on = asyncio.Event()

    async def slow() -> Fields:
        await may_go_on.wait()
        return COORDINATOR

    def answer(request: Request) -> object:
        if request.correlation_id == 1:
            return slow()
        may_go_on.set()
        return COORDINATOR

    exchange.route(handler_of(ApiKey.FIND_COORDINATOR, 0, 3, answer))
    await exchange.ask(ApiKey.FIND_COORDINATOR, 0, correlation_id=1)
    await exchange.ask(ApiKey.FIND_COORDINATOR, 0, correlation_id=2)
    frames = [await exchange.answer() for _ in range(2)]
    assert [frame[3] for frame in frames if frame] == [1, 2]


@pytest.mark.parametrize(("key", "version"), [(99, 0), (ApiKey.FIND_COORDINATOR, 7), (ApiKey.FIND_COORDINATOR, -1), (-1, 0)])
async def test_what_is_not_answered_closes_the_connection(exchange: Exchange, key: int, version: int) -> None:
    exchange.route(handler_of(ApiKey.FIND_COORDINATOR, 0, 6, lambda _request: COORDINATOR))
    await exchange.ask(key, version)
    assert await exchange.answer() is None


async def test_only_api_versions_is_handled_in_any_version(exchange: Exchange) -> None:
    exchange.route(handler_of(ApiKey.API_VERSIONS, 0, 4, lambda _request: (struct.pack(">i", 2), b"ok")))
    await exchange.ask(ApiKey.API_VERSIONS, 99)
    assert await exchange.answer() == b"ok"


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_mistake_of_ours_closes_one_connection_with_a_traceback(
    exchange: Exchange, caplog: pytest.LogCaptureFixture, is_slow: bool
) -> None:
    async def fail_later() -> Fields:
        raise RuntimeError("our mistake")

    def answer(_request: Request) -> object:
        if is_slow:
            return fail_later()
        raise RuntimeError("our mistake")

    exchange.route(handler_of(ApiKey.FIND_COORDINATOR, 0, 6, answer))
    with caplog.at_level(logging.ERROR):
        await exchange.ask(ApiKey.FIND_COORDINATOR, 0)
        assert await exchange.answer() is None
    assert "FIND_COORDINATOR version 0 from peer:1 failed" in caplog.text
    assert "RuntimeError: our mistake" in caplog.text


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_mistake_of_the_clients_closes_without_a_traceback(
    exchange: Exchange, caplog: pytest.LogCaptureFixture, is_slow: bool
) -> None:
    async def refuse_later() -> Fields:
        raise MalformedFrame("their mistake")

    def answer(_request: Request) -> object:
        if is_slow:
            return refuse_later()
        raise MalformedFrame("their mistake")

    exchange.route(handler_of(ApiKey.FIND_COORDINATOR, 0, 6, answer))
    await exchange.ask(ApiKey.FIND_COORDINATOR, 0)
    assert await exchange.answer() is None
    assert "their mistake" in caplog.text
    assert "Traceback" not in caplog.text


def forwardable(reply: Fields) -> Handler:
    @api(ApiKey.FIND_COORDINATOR, 0, 3, forwarding=Forwarding.WHOLE)
    def handle(request: Request) -> Any:
        assert request.is_forwarded
        return reply

    return handle


FRAME = struct.pack(">hhih", ApiKey.FIND_COORDINATOR, 0, 7, -1) + b"\x00\x00"
REFUSED: Fields = {"name": "a", "error_code": NotController.code}


@pytest.mark.parametrize(
    ("reply", "is_refused"),
    [
        (COORDINATOR, False),
        ({**COORDINATOR, "error_code": NotController.code}, True),
        ({**COORDINATOR, "parts": [REFUSED, REFUSED]}, True),
        ({**COORDINATOR, "parts": [{"inner": [REFUSED]}]}, True),
        ({**COORDINATOR, "parts": [REFUSED, {"name": "b", "error_code": 0}]}, False),
        ({**COORDINATOR, "parts": [REFUSED, {"name": "b", "error_code": 3}]}, False),
        ({**COORDINATOR, "parts": []}, False),
    ],
)
async def test_request_that_was_passed_on_says_whether_this_is_not_the_controller(
    exchange: Exchange, reply: Fields, is_refused: bool
) -> None:
    exchange.route(forwardable(reply))
    carried_out = await exchange.router.carry_out(exchange.connection, Session("PLAINTEXT", "::1"), FRAME)
    assert carried_out.is_refused is is_refused
    assert read_response_header(carried_out.data, api_key=ApiKey.FIND_COORDINATOR, version=0) == (7, 4)


async def test_a_long_answer_to_what_was_passed_on_may_be_encoded_already(exchange: Exchange) -> None:
    def encoded(request: Request) -> Any:
        answer = request.encode(COORDINATOR)
        return [answer[:6], answer[6:]]

    exchange.route(api(ApiKey.FIND_COORDINATOR, 0, 3, forwarding=Forwarding.WHOLE)(encoded))
    carried_out = await exchange.router.carry_out(exchange.connection, Session("PLAINTEXT", "::1"), FRAME)
    exchange.route(forwardable(COORDINATOR))
    assert carried_out == await exchange.router.carry_out(exchange.connection, Session("PLAINTEXT", "::1"), FRAME)


async def test_what_every_broker_answers_by_itself_is_not_passed_on(exchange: Exchange) -> None:
    exchange.route(handler_of(ApiKey.FIND_COORDINATOR, 0, 3, lambda _request: COORDINATOR))
    with pytest.raises(InvalidRequest):
        await exchange.router.carry_out(exchange.connection, Session("PLAINTEXT", "::1"), FRAME)


async def test_what_was_passed_on_passes_the_gate(exchange: Exchange) -> None:
    exchange.route(forwardable(COORDINATOR))
    with pytest.raises(MalformedFrame, match="answers 0 to 3"):
        await exchange.router.carry_out(
            exchange.connection, Session("PLAINTEXT", "::1"), struct.pack(">hhih", ApiKey.FIND_COORDINATOR, 9, 7, -1) + b"\x00"
        )
