import asyncio
import socket

import pytest

from millstream.address import Address
from millstream.broker.network.event_loop import BrokerLoop
from millstream.client.direct_transport import DirectTransport


class Received(asyncio.BufferedProtocol):
    """Keeps what came, and how it ended."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray(1 << 16)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.content += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, BrokerLoop])
def test_what_the_socket_does_not_take_at_once_is_sent_later_and_in_order(loop: type[asyncio.AbstractEventLoop]) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.01)  # long enough for the buffers to fill
        while content := await reader.read(1 << 16):
            writer.write(content)
            await writer.drain()
        writer.close()

    async def talk() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        protocol = Received()
        transport = await DirectTransport.open(Address(*server.sockets[0].getsockname()), protocol)
        pieces = [bytes([number % 256]) * 100_000 for number in range(80)]
        transport.writelines(pieces)
        transport.writelines([b"end"])
        async with asyncio.timeout(30):
            while len(protocol.content) < 8_000_003:  # noqa: ASYNC110 -- the protocol calls no one
                await asyncio.sleep(0.001)
        assert protocol.content == b"".join(pieces) + b"end"
        transport.abort()
        assert transport.is_closing()
        assert await protocol.lost is None
        server.close()
        await server.wait_closed()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(talk())


async def test_end_by_the_peer_is_reported_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        protocol = Received()
        transport = await DirectTransport.open(Address(*listener.getsockname()), protocol)
        listener.accept()[0].close()
        assert await asyncio.wait_for(protocol.lost, 10) is None
        assert transport.is_closing()
        transport.abort()
        await asyncio.sleep(0)


async def test_protocol_that_fails_ends_the_connection() -> None:
    class Failing(Received):
        def buffer_updated(self, nbytes: int) -> None:
            raise ValueError("nonsense")

    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context["exception"]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        protocol = Failing()
        transport = await DirectTransport.open(Address(*listener.getsockname()), protocol)
        accepted = listener.accept()[0]
        accepted.sendall(b"x")
        assert await asyncio.wait_for(protocol.lost, 10) is None
        assert transport.is_closing()
        assert [str(failure) for failure in failures] == ["nonsense"]
        accepted.close()
