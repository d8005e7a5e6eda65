import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from millstream.broker.network.event_loop import BrokerLoop, end_of_turn, is_turn_shared

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    made = [socket.socketpair() for _ in range(3)]
    for one, other in made:
        one.setblocking(False)
        other.setblocking(False)
    yield made
    for one, other in made:
        one.close()
        other.close()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await work()

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(bounded())


def direct() -> BrokerLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, BrokerLoop)
    return loop


@pytest.mark.parametrize("is_descriptor", [True, False])
def test_socket_is_called_when_there_is_something_to_read_and_no_longer_when_it_is_removed(
    pairs: list[Pair], *, is_descriptor: bool
) -> None:
    (ours, theirs), *_ = pairs
    watched = ours.fileno() if is_descriptor else ours

    async def work() -> None:
        events, received = direct(), asyncio.Queue[bytes]()
        events.add_reader(watched, lambda: received.put_nowait(ours.recv(100)))
        theirs.send(b"one")
        assert await received.get() == b"one"
        theirs.send(b"two")
        assert await received.get() == b"two"
        events.remove_reader(watched)
        events.remove_reader(watched)
        theirs.send(b"three")
        for _ in range(5):
            await asyncio.sleep(0)
        assert received.empty()
        assert ours.recv(100) == b"three"

    run(work)


def test_reader_and_writer_of_one_socket_are_called_separately(pairs: list[Pair]) -> None:
    (ours, theirs), *_ = pairs

    async def work() -> None:
        events, calls = direct(), asyncio.Queue[str]()

        def read() -> None:
            ours.recv(100)
            calls.put_nowait("read")

        def write() -> None:
            events.remove_writer(ours.fileno())
            calls.put_nowait("write")

        events.add_reader(ours.fileno(), read)
        events.add_writer(ours.fileno(), write)
        assert await calls.get() == "write"
        theirs.send(b"x")
        assert await calls.get() == "read"
        assert calls.empty()

    run(work)


def test_end_of_the_peer_calls_the_reader(pairs: list[Pair]) -> None:
    (ours, theirs), *_ = pairs

    async def work() -> None:
        events, received = direct(), asyncio.Queue[bytes]()

        def read() -> None:
            received.put_nowait(ours.recv(100))
            events.remove_reader(ours.fileno())

        events.add_reader(ours.fileno(), read)
        theirs.close()
        assert await received.get() == b""

    run(work)


def test_failing_callback_is_logged_and_harms_no_other_socket(pairs: list[Pair], caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        events, received = direct(), asyncio.Queue[bytes]()

        def fail() -> None:
            pairs[0][0].recv(100)
            raise RuntimeError("a mistake")

        events.add_reader(pairs[0][0].fileno(), fail)
        for ours, _ in pairs[1:]:
            events.add_reader(ours.fileno(), lambda ours=ours: received.put_nowait(ours.recv(100)))  # type: ignore[misc]
        for _, theirs in pairs:
            theirs.send(b"x")
        assert [await received.get(), await received.get()] == [b"x", b"x"]

    run(work)
    assert "a mistake" in caplog.text


def test_socket_that_another_callback_closed_is_not_called(pairs: list[Pair]) -> None:
    async def work() -> None:
        events, calls = direct(), asyncio.Queue[int]()
        numbers = {ours.fileno(): ours for ours, _ in pairs[:2]}

        def close_the_other(descriptor: int) -> None:
            calls.put_nowait(descriptor)
            for number, ours in numbers.items():
                events.remove_reader(number)
                ours.close()

        for number in numbers:
            events.add_reader(number, lambda number=number: close_the_other(number))  # type: ignore[misc]
        for _, theirs in pairs[:2]:
            theirs.send(b"x")
        assert await calls.get() in numbers
        for _ in range(5):
            await asyncio.sleep(0)
        assert calls.empty()

    run(work)


def test_all_else_of_asyncio_works_beside_it(pairs: list[Pair]) -> None:
    (ours, theirs), *_ = pairs

    async def work() -> None:
        loop = direct()
        called = loop.create_future()

        def read() -> None:
            loop.call_soon(called.set_result, ours.recv(100))

        loop.add_reader(ours.fileno(), read)
        assert await asyncio.to_thread(lambda: 7) == 7
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
        server.close()
        await asyncio.sleep(0.001)
        theirs.send(b"x")
        assert await called == b"x"

    run(work)


def test_sockets_that_asyncio_waits_for_are_left_when_they_are_ready(pairs: list[Pair]) -> None:
    (ours, theirs), *_ = pairs

    async def work() -> None:
        loop = direct()
        waiting = asyncio.create_task(loop.sock_recv(ours, 100))
        await asyncio.sleep(0)
        theirs.send(b"one")
        assert await waiting == b"one"
        theirs.send(b"two")
        assert loop.direct.select(0) == []
        assert not loop.remove_reader(ours.fileno())

    run(work)


def test_asyncio_has_its_turn_while_sockets_are_ready_all_the_time(pairs: list[Pair]) -> None:
    (ours, theirs), *_ = pairs

    async def work() -> None:
        loop = direct()
        calls = list[str]()
        theirs.send(b"never read")
        loop.add_reader(ours.fileno(), lambda: calls.append("socket"))
        await asyncio.sleep(0.001)  # a timer
        await asyncio.to_thread(lambda: None)
        rung = asyncio.Event()
        loop.call_later(0.001, rung.set)
        await rung.wait()
        loop.remove_reader(ours.fileno())
        assert calls.count("socket") > 2

    run(work)


def test_timer_that_a_socket_sets_rings_while_nothing_else_happens(pairs: list[Pair]) -> None:
    (ours, theirs), *_ = pairs

    async def work() -> None:
        loop, rung = direct(), asyncio.Event()

        def read() -> None:
            ours.recv(100)
            loop.call_later(0.001, rung.set)

        loop.add_reader(ours.fileno(), read)
        sender = threading.Timer(0.01, lambda: theirs.send(b"x"))  # when the loop has nothing to do but to poll
        sender.start()
        await rung.wait()
        sender.join()

    run(work)


def test_end_of_a_turn_comes_after_all_sockets_that_are_ready(pairs: list[Pair]) -> None:
    async def work() -> None:
        loop, calls = direct(), asyncio.Queue[str]()
        soon = end_of_turn(loop)

        def read(ours: socket.socket) -> None:
            calls.put_nowait(ours.recv(100).decode())
            soon(lambda: calls.put_nowait("end"))

        for ours, theirs in pairs:
            loop.add_reader(ours.fileno(), read, ours)
            theirs.send(b"x")
        assert [await calls.get() for _ in range(6)] == ["x", "x", "x", "end", "end", "end"]

    run(work)


def test_a_turn_is_shared_if_several_sockets_are_ready(pairs: list[Pair]) -> None:
    async def work() -> None:
        loop, found = direct(), asyncio.Queue[bool]()
        is_shared = is_turn_shared(loop)

        def read(ours: socket.socket) -> None:
            ours.recv(100)
            found.put_nowait(is_shared())

        for ours, _ in pairs:
            loop.add_reader(ours.fileno(), read, ours)
        for _, theirs in pairs:
            theirs.send(b"x")
        assert [await found.get() for _ in pairs] == [True] * 3
        pairs[0][1].send(b"x")
        assert not await found.get()

    run(work)


async def test_other_loops_do_not_say_that_a_turn_is_shared() -> None:
    assert not is_turn_shared(asyncio.get_running_loop())()


def test_what_the_end_of_a_turn_brings_up_comes_without_another_poll(pairs: list[Pair]) -> None:
    (ours, theirs), *_ = pairs

    async def work() -> None:
        loop, calls = direct(), asyncio.Queue[str]()
        soon = end_of_turn(loop)

        def read() -> None:
            calls.put_nowait(ours.recv(1).decode())  # one more byte stays ready
            soon(lambda: soon(lambda: calls.put_nowait("end")))

        loop.add_reader(ours.fileno(), read)
        theirs.send(b"ab")
        assert [await calls.get() for _ in range(4)] == ["a", "end", "b", "end"]

    run(work)


def test_end_of_a_turn_is_not_waited_for_when_nothing_else_happens() -> None:
    async def work() -> None:
        is_over = asyncio.Event()
        end_of_turn(direct())(is_over.set)
        await is_over.wait()

    run(work)


async def test_end_of_a_turn_comes_soon_on_any_loop() -> None:
    is_over = asyncio.Event()
    end_of_turn(asyncio.get_running_loop())(is_over.set)
    await is_over.wait()
