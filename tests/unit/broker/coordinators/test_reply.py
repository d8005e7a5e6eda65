import logging
import socket

import pytest

from millstream.broker.coordinators.reply import CoordinatorReply, GatheredReply
from millstream.broker.network.api import Fields, Request
from millstream.broker.network.connection import Connection
from millstream.broker.network.frame_reader import ReceiveBuffers
from millstream.broker.network.request_times import RequestTimes
from millstream.errors import KafkaError, NotCoordinator
from millstream.wire.api import ApiKey
from millstream.wire.frames import RequestHeader
from tests.unit.broker.conftest import Ends


class NoHandler:
    def handle(self, connection: Connection, frame: memoryview) -> None:
        raise AssertionError("nothing is sent")


def heartbeat(connected: socket.socket) -> Request:
    connection = Connection(
        connected,
        peer="client:1",
        handler=NoHandler(),
        buffers=ReceiveBuffers(max_held_bytes=1 << 20),
        max_frame_size=1000,
        times=RequestTimes(),
        on_close=lambda _: None,
    )
    return Request(connection, RequestHeader(ApiKey.HEARTBEAT, 0, 7, "client", 0), memoryview(b""))


def refuse(error: KafkaError) -> Fields:
    return {"error_code": error.code}


def show(_request: Request, fields: Fields) -> bytes:
    return str(fields).encode()


async def test_answer_that_is_there_is_returned_by_the_handler(ends: Ends) -> None:
    request = heartbeat(ends.broker)
    reply = CoordinatorReply(request, refuse)
    reply.fail(NotCoordinator())
    assert reply.result() == (b"\x00\x00\x00\x06\x00\x00\x00\x07\x00\x10",)
    request.connection.close()


async def test_answer_that_comes_later_is_sent_in_the_shape_of_its_version(ends: Ends) -> None:
    request = heartbeat(ends.broker)
    reply = CoordinatorReply(request, refuse, shape=lambda fields: {**fields, "error_code": 27})
    assert reply.result() is None
    reply.answer({"error_code": 0})
    assert ends.client.recv(100) == b"\x00\x00\x00\x06\x00\x00\x00\x07\x00\x1b"
    request.connection.close()


async def test_answer_that_makes_no_sense_closes_the_connection_of_its_request_only(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    request = heartbeat(ends.broker)
    reply = CoordinatorReply(request, refuse)
    reply.result()
    with caplog.at_level(logging.ERROR):
        reply.answer({"error_code": "nonsense"})
    assert request.connection.is_closed
    assert "makes no sense" in caplog.text


async def test_gathered_answer_waits_for_its_last_part(ends: Ends) -> None:
    request = heartbeat(ends.broker)
    reply = CoordinatorReply(request, refuse, encode=show)
    gathered = GatheredReply(reply, 2, lambda parts: {"parts": parts})
    gathered.part(1, refuse).fail(NotCoordinator())
    gathered.part(0, refuse).answer({"error_code": 0})
    assert reply.result() == (b"{'parts': [{'error_code': 0}, {'error_code': 16}]}",)
    empty = CoordinatorReply(request, refuse, encode=show)
    GatheredReply(empty, 0, lambda parts: {"parts": parts})
    assert empty.result() == (b"{'parts': []}",)
    request.connection.close()
