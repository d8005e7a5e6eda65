"""A connection to one broker on an event loop, with as many requests under way as the caller likes: `client.connection` without blocking.

    async with await AsyncConnection.open(Address("localhost", 9092)) as connection:
        first = connection.send(FetchRequest([FetchFrom("clicks", 0, offset=0)]))
        second = connection.send(FetchRequest([FetchFrom("clicks", 1, offset=0)]))   # does not wait for the first
        answer = await first
        metadata = read_metadata(await connection.send(metadata_request(["clicks"])))

`send` gives a future: await it, or add a callback; `call` calls back at once when the answer comes, without a turn of the loop. There is
neither a task nor a timer per request, and record batches stay views into the bytes that were received, so one task can fetch from a
leader all day. How many requests are under way, and so how much is buffered for a broker that does not read, is up to the caller.

Answers come in the order of the requests, so one that is no longer waited for cannot be skipped: after a timeout, or when a future is
cancelled, as after a broken frame or an end by the broker, the connection is closed and stays so. Whatever was under way gets
`BrokerUnavailable` then, and whether it was carried out is not known.

It is a plain socket with a reader callback, not an asyncio transport: on a broker's loop (`broker.network.event_loop`) an answer then costs
no handle and no turn of asyncio's queue.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Self, TypeVar

from millstream.address import Address
from millstream.buffer import Buffer
from millstream.client.api_versions import HANDSHAKE_VERSIONS, ApiVersionsRequest
from millstream.client.connection import CLIENT_ID, MOST_PIECES, TIMEOUT_S
from millstream.client.conversation import Conversation
from millstream.client.errors import BrokerUnavailable, broken, unreachable
from millstream.client.frames import MAX_ANSWER_BYTES
from millstream.client.request import Request
from millstream.errors import KafkaError, MalformedFrame, MillstreamError

T = TypeVar("T")


class AsyncConnection:
    """One connection to one broker; `open` makes one that is connected and knows the broker's versions."""

    def __init__(self, connected: socket.socket, address: Address, *, client_id: str, timeout_s: float, max_frame_bytes: int) -> None:
        self.address = address
        self._socket = connected
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._conversation = Conversation(client_id=client_id, max_frame_bytes=max_frame_bytes)
        self._answers: deque[_Answer[Any] | _Call[Any]] = deque()
        self._unsent = bytearray()
        """What the socket did not take at once."""
        self._timer: asyncio.TimerHandle | None = None
        """Rings not after the earliest deadline of what is unanswered; most requests come and go between two rings."""
        self.is_closed = False
        """Whether nothing can be sent any more."""
        self._loop.add_reader(connected.fileno(), self._readable)

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        client_id: str = CLIENT_ID,
        timeout_s: float = TIMEOUT_S,
        max_frame_bytes: int = MAX_ANSWER_BYTES,
    ) -> Self:
        """Connect; BrokerUnavailable if that cannot be done in time. An answer above `max_frame_bytes` ends the connection."""
        try:
            async with asyncio.timeout(timeout_s):
                connected = await _connect(address)
        except (OSError, UnicodeError) as error:
            raise unreachable(address, error) from error
        made = cls(connected, address, client_id=client_id, timeout_s=timeout_s, max_frame_bytes=max_frame_bytes)
        try:
            for version in HANDSHAKE_VERSIONS:
                if made._conversation.learn(await made._send(ApiVersionsRequest(), version=version, timeout_s=timeout_s)):
                    break
        except BaseException:
            made.close()
            raise
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def unanswered(self) -> int:
        """How many requests wait for their answers."""
        return len(self._answers)

    def send(self, request: Request[T], *, timeout_s: float | None = None) -> "asyncio.Future[T]":
        """Send one request; the future has its answer, or what ended the connection before it came."""
        return self._send(request, version=None, timeout_s=self._timeout_s if timeout_s is None else timeout_s)

    def call(
        self, request: Request[T], *, on_answer: Callable[[T], None], on_failure: Callable[[MillstreamError], None], timeout_s: float
    ) -> object:
        """Send one request and call back with its answer, or with what ended the connection; neither callback may raise."""
        awaited = _Call(on_answer, on_failure, deadline=self._loop.time() + timeout_s)
        self._ask(request, awaited, version=None)
        return awaited

    def close(self) -> None:
        """End the connection now."""
        self._end(BrokerUnavailable(f"the connection to {self.address} is closed"))

    def _send(self, request: Request[T], *, version: int | None, timeout_s: float) -> "asyncio.Future[T]":
        answer: _Answer[T] = _Answer(self._loop, deadline=self._loop.time() + timeout_s, on_cancel=self.close)
        self._ask(request, answer, version=version)
        return answer

    def _ask(self, request: Request[T], awaited: "_Answer[T] | _Call[T]", *, version: int | None) -> None:
        assert request.has_answer, "a request without an answer cannot be waited for"
        if self.is_closed:
            raise BrokerUnavailable(f"the connection to {self.address} is closed")
        _, pieces = self._conversation.ask(request, version=version)
        self._answers.append(awaited)
        if self._timer is None or awaited.deadline < self._timer.when():
            self._ring_at(awaited.deadline)
        self._write(pieces)

    def _write(self, pieces: Sequence[Buffer]) -> None:
        """Send what the socket takes; the rest is sent when it takes more."""
        if self._unsent:
            self._keep(pieces, sent=0)
            return
        try:
            sent = self._socket.sendmsg(pieces[:MOST_PIECES])
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._end(broken(self.address, error))
            return
        if sent < sum(map(len, pieces)):
            self._keep(pieces, sent=sent)
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _keep(self, pieces: Iterable[Buffer], *, sent: int) -> None:
        self._unsent += memoryview(b"".join(pieces))[sent:]

    def _writable(self) -> None:
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(broken(self.address, error))
            return
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            count = self._socket.recv_into(self._conversation.target())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(broken(self.address, error))
            return
        if not count:
            self._end(broken(self.address, None))
            return
        try:
            for pending in self._conversation.received(count):
                content = pending.answer()
                self._answers.popleft().deliver(content)
                if self.is_closed:
                    return
        except (MalformedFrame, KafkaError) as error:
            self._end(broken(self.address, error))

    def _end(self, error: MillstreamError) -> None:
        """Close, and let everyone who waits know why; what happens after that has no effect."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        descriptor = self._socket.fileno()
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        self._socket.close()
        while self._answers:
            self._answers.popleft().fail(error)

    def _ring_at(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        if not self._answers:
            return
        earliest = min(answer.deadline for answer in self._answers)
        if earliest > self._loop.time():
            self._ring_at(earliest)
        else:
            self._end(broken(self.address, TimeoutError()))


class _Answer(asyncio.Future[T]):
    """An answer that is due; cancelling it ends the connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, deadline: float, on_cancel: Callable[[], None]) -> None:
        super().__init__(loop=loop)
        self.deadline = deadline
        self._on_cancel = on_cancel

    def deliver(self, content: T) -> None:
        self.set_result(content)

    def fail(self, error: MillstreamError) -> None:
        if not self.done():
            self.set_exception(error)
            self.exception()  # seen: of several under way most callers await only the first

    def cancel(self, msg: Any | None = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._on_cancel()
        return is_cancelled


class _Call(Generic[T]):
    """An answer that is due, and who is called with it."""

    __slots__ = ("deadline", "deliver", "fail")

    def __init__(self, on_answer: Callable[[T], None], on_failure: Callable[[MillstreamError], None], *, deadline: float) -> None:
        self.deliver = on_answer
        self.fail = on_failure
        self.deadline = deadline


async def _connect(address: Address) -> socket.socket:
    """A socket that is connected to the first address of the host that answers."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    failure = OSError(f"{address.host} has no address")
    for family, kind, protocol, _, place in found:
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.setblocking(False)
            await loop.sock_connect(connecting, place)
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connecting.close()
            failure = error
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    raise failure
