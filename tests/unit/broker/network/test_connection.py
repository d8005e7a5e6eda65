import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from millstream.broker.network.connection import MAX_QUEUED_BYTES, MAX_UNANSWERED, Connection, PendingReply
from millstream.broker.network.frame_reader import ReceiveBuffers
from millstream.broker.network.request_times import RequestTimes
from millstream.errors import MalformedFrame
from tests.unit.broker.conftest import Ends
from tests.unit.broker.network.test_frame_reader import framed
from tests.waiting import eventually

Behaviour = Callable[[Connection, bytes], None]


class Peer:
    """A connection whose requests are handled by whatever a test says, and the client's end of it."""

    def __init__(self, ends: Ends) -> None:
        self.behaviour: Behaviour = lambda connection, frame: connection.reply((b"<" + frame + b">",), 0)
        self.handled: list[bytes] = []
        self.closed: list[Connection] = []
        self.buffers = ReceiveBuffers(max_held_bytes=1 << 24)
        self.times = RequestTimes()
        self.client = ends.client
        self.client.setblocking(False)
        self.connection = Connection(
            ends.broker,
            peer="peer:1",
            handler=self,
            buffers=self.buffers,
            max_frame_size=1 << 20,
            times=self.times,
            on_close=self.closed.append,
        )

    def handle(self, connection: Connection, frame: memoryview) -> None:
        self.handled.append(bytes(frame))
        self.behaviour(connection, bytes(frame))

    async def send(self, *contents: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, b"".join(map(framed, contents)))

    async def receive(self, size: int) -> bytes:
        received = b""
        async with asyncio.timeout(20):
            while len(received) < size:
                chunk = await asyncio.get_running_loop().sock_recv(self.client, size - len(received))
                if not chunk:
                    break
                received += chunk
        return received


@pytest.fixture
async def peer(ends: Ends) -> AsyncIterator[Peer]:
    peer = Peer(ends)
    yield peer
    peer.connection.close()


def deferring(places: list[PendingReply]) -> Behaviour:
    return lambda connection, _frame: places.append(connection.defer(0))


async def test_requests_are_answered_in_order(peer: Peer) -> None:
    await peer.send(b"1234", b"5678")
    assert await peer.receive(12) == b"<1234><5678>"


async def test_an_answer_that_waits_holds_back_those_behind_it_but_not_their_work(peer: Peer) -> None:
    places: list[PendingReply] = []

    def wait_for_the_first(connection: Connection, frame: bytes) -> None:
        if frame == b"wait":
            places.append(connection.defer(0))
        else:
            connection.reply((frame,), 0)

    peer.behaviour = wait_for_the_first
    await peer.send(b"wait", b"now!", b"wait")
    await eventually(lambda: len(peer.handled) == 3)
    places[1].complete((b"last",))
    with pytest.raises(BlockingIOError):
        peer.client.recv(1)
    places[0].complete((b"first",))
    assert await peer.receive(13) == b"firstnow!last"


async def test_an_answer_may_be_completed_while_its_own_connection_is_handling(peer: Peer) -> None:
    places: list[PendingReply] = []

    def complete_the_one_before(connection: Connection, frame: bytes) -> None:
        if places:
            places.pop().complete((b"before",))
            connection.reply((frame,), 0)
        else:
            places.append(connection.defer(0))

    peer.behaviour = complete_the_one_before
    await peer.send(b"1111", b"2222")
    assert await peer.receive(10) == b"before2222"


async def test_an_empty_answer_takes_its_place_and_sends_nothing(peer: Peer) -> None:
    places: list[PendingReply] = []
    peer.behaviour = deferring(places)
    await peer.send(b"1111", b"2222")
    await eventually(lambda: len(places) == 2)
    places[1].complete((b"two",))
    places[0].complete(())
    assert await peer.receive(3) == b"two"


async def test_too_many_unanswered_requests_stop_the_reading_until_some_are_answered(peer: Peer) -> None:
    places: list[PendingReply] = []
    peer.behaviour = deferring(places)
    for _ in range(MAX_UNANSWERED):
        await peer.send(b"wait")
    await eventually(lambda: len(places) == MAX_UNANSWERED)
    await peer.send(b"more")
    assert not peer.connection._is_reading
    places[0].complete((b"done",))
    await eventually(lambda: b"more" in peer.handled)
    assert peer.connection.has_moved()


async def test_a_peer_that_does_not_read_is_not_read_from(peer: Peer) -> None:
    peer.behaviour = lambda connection, _frame: connection.reply((bytes(MAX_QUEUED_BYTES + (8 << 20)),), 0)
    await peer.send(b"1111")
    await eventually(lambda: bool(peer.handled))
    await peer.send(b"2222")
    assert not peer.connection._is_reading
    assert peer.handled == [b"1111"]
    peer.behaviour = lambda connection, _frame: connection.reply((b"end",), 0)
    await peer.receive(MAX_QUEUED_BYTES + (8 << 20))
    assert await peer.receive(3) == b"end"


async def test_those_who_wait_for_a_peer_that_went_are_called(peer: Peer) -> None:
    places: list[PendingReply] = []
    abandoned: list[int] = []
    peer.behaviour = deferring(places)
    await peer.send(b"1111", b"2222")
    await eventually(lambda: len(places) == 2)
    for number, place in enumerate(places):
        place.on_abandon = lambda number=number: abandoned.append(number)
    peer.client.close()
    await eventually(lambda: peer.connection.is_closed)
    assert abandoned == [0, 1]
    assert peer.closed == [peer.connection]
    places[0].complete((b"too late",))
    peer.connection.close()
    assert peer.closed == [peer.connection]


async def test_a_malformed_request_closes_with_its_reason_in_the_log(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_connection: Connection, _frame: bytes) -> None:
        raise MalformedFrame("makes no sense")

    peer.behaviour = refuse
    with caplog.at_level(logging.WARNING):
        await peer.send(b"1111", b"2222")
        assert await peer.receive(1) == b""
    assert peer.handled == [b"1111"]
    assert "peer:1: makes no sense" in caplog.text


async def test_a_request_that_closes_its_connection_is_the_last(peer: Peer) -> None:
    peer.behaviour = lambda connection, _frame: connection.close()
    await peer.send(b"1111", b"2222")
    assert await peer.receive(1) == b""
    assert peer.handled == [b"1111"]


async def test_a_large_request_in_pieces_is_one_frame_and_its_buffer_comes_back(peer: Peer) -> None:
    peer.behaviour = lambda connection, frame: connection.reply((str(len(frame)).encode(),), 0)
    await peer.send(b"x" * 700_000)
    assert await peer.receive(6) == b"700000"
    assert peer.buffers.held_bytes == 0


async def test_half_a_frame_gives_its_buffer_back_when_the_peer_goes(peer: Peer) -> None:
    await asyncio.get_running_loop().sock_sendall(peer.client, framed(b"x" * 100_000)[:50_000])
    await eventually(lambda: peer.connection.bytes_received == 50_000)
    assert peer.connection.is_inside_frame
    peer.client.close()
    await eventually(lambda: peer.connection.is_closed)
    assert peer.buffers.held_bytes == 0


async def test_the_sweep_knows_whether_anything_moved(peer: Peer) -> None:
    assert not peer.connection.has_moved()
    await peer.send(b"1234")
    await peer.receive(6)
    assert peer.connection.has_moved()
    assert not peer.connection.has_moved()
    places: list[PendingReply] = []
    peer.behaviour = deferring(places)
    await peer.send(b"wait")
    await eventually(lambda: bool(places))
    assert peer.connection.has_moved()
    assert peer.connection.has_moved()


async def test_requests_of_one_receive_are_not_all_begun_when_there_is_too_much_to_answer(peer: Peer) -> None:
    places: list[PendingReply] = []
    peer.behaviour = deferring(places)
    await peer.send(*(f"{number:04d}".encode() for number in range(3 * MAX_UNANSWERED)))
    await eventually(lambda: len(places) == MAX_UNANSWERED)
    for number in range(3 * MAX_UNANSWERED):
        await eventually(lambda: len(places) > number)  # noqa: B023 -- awaited at once
        assert len(places) - number <= MAX_UNANSWERED
        places[number].complete((peer.handled[number],))
    assert await peer.receive(12 * MAX_UNANSWERED) == b"".join(peer.handled)
    assert len(peer.handled) == 3 * MAX_UNANSWERED


async def test_answers_before_a_malformed_request_are_sent_before_the_connection_closes(peer: Peer) -> None:
    def refuse_the_second(connection: Connection, frame: bytes) -> None:
        if frame == b"2222":
            raise MalformedFrame("no")
        connection.reply((frame,), 0)

    peer.behaviour = refuse_the_second
    await peer.send(b"1111", b"2222", b"3333")
    assert await peer.receive(100) == b"1111"
    assert peer.closed == [peer.connection]


async def test_reader_of_a_long_answer_counts_as_moving(peer: Peer) -> None:
    peer.behaviour = lambda connection, _frame: connection.reply((bytes(1 << 22),), 0)
    await peer.send(b"1111")
    await eventually(lambda: peer.handled)
    peer.connection.has_moved()
    assert not peer.connection.has_moved()
    await peer.receive(1 << 20)
    await eventually(peer.connection.has_moved)


@pytest.mark.parametrize("in_one_piece", [True, False])
async def test_requests_behind_one_that_is_held_begin_when_it_is_done(peer: Peer, *, in_one_piece: bool) -> None:
    places: list[PendingReply] = []

    def hold_the_first(connection: Connection, frame: bytes) -> None:
        if frame == b"hold":
            connection.hold()
            places.append(connection.defer(0))
        else:
            connection.reply((frame,), 0)

    peer.behaviour = hold_the_first
    if in_one_piece:
        await peer.send(b"hold", b"next", b"last")
    else:
        await peer.send(b"hold")
        await eventually(lambda: bool(places))
        await peer.send(b"next")
        await peer.send(b"last")
    await eventually(lambda: bool(places))
    for _ in range(10):
        await asyncio.sleep(0)
    assert peer.handled == [b"hold"]
    places[0].complete((b"done",))
    assert peer.handled == [b"hold"]
    peer.connection.release()
    assert await peer.receive(12) == b"donenextlast"


async def test_a_held_connection_may_be_closed(peer: Peer) -> None:
    peer.behaviour = lambda connection, _frame: connection.hold()
    await peer.send(b"hold", b"never")
    await eventually(lambda: bool(peer.handled))
    peer.connection.close()
    peer.connection.release()
    assert peer.handled == [b"hold"]


async def test_nothing_further_is_handled_while_any_request_holds(peer: Peer) -> None:
    peer.behaviour = lambda connection, _frame: connection.hold()
    await peer.send(b"hold", b"wait")
    await eventually(lambda: len(peer.handled) == 1)
    peer.connection.hold()
    peer.connection.release()
    for _ in range(3):
        await asyncio.sleep(0)
    assert peer.handled == [b"hold"]
    peer.connection.release()
    await eventually(lambda: peer.handled == [b"hold", b"wait"])
