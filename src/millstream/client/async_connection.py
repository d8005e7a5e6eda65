"""A connection to one broker on an event loop, with as many requests under way as the caller likes: `client.connection` without blocking.

    async with await AsyncConnection.open(Address("localhost", 9092)) as connection:
        first = connection.send(FetchRequest([FetchFrom("clicks", 0, offset=0)]))
        second = connection.send(FetchRequest([FetchFrom("clicks", 1, offset=0)]))   # does not wait for the first
        answer = await first
        metadata = read_metadata(await connection.send(metadata_request(["clicks"])))

`send` gives a future: await it, or add a callback. There is neither a task nor a timer per request, and record batches stay views into the
bytes that were received, so one task can fetch from a leader all day. How many requests are under way, and so how much is buffered for
a broker that does not read, is up to the caller.

Answers come in the order of the requests, so one that is no longer waited for cannot be skipped: after a timeout, or when a future is
cancelled, as after a broken frame or an end by the broker, the connection is closed and stays so. Whatever was under way gets
`BrokerUnavailable` then, and whether it was carried out is not known.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

from millstream.address import Address
from millstream.client.api_versions import HANDSHAKE_VERSIONS, ApiVersionsRequest
from millstream.client.connection import CLIENT_ID, TIMEOUT_S
from millstream.client.conversation import Conversation
from millstream.client.errors import BrokerUnavailable, broken, unreachable
from millstream.client.frames import MAX_ANSWER_BYTES
from millstream.client.request import Request
from millstream.errors import KafkaError, MalformedFrame, MillstreamError

T = TypeVar("T")


class AsyncConnection(asyncio.BufferedProtocol):
    """One connection to one broker; `open` makes one that is connected and knows the broker's versions."""

    def __init__(self, address: Address, *, client_id: str, timeout_s: float, max_frame_bytes: int) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._conversation = Conversation(client_id=client_id, max_frame_bytes=max_frame_bytes)
        self._transport: asyncio.Transport
        self._answers: deque[_Answer[Any]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        """Rings not after the earliest deadline of what is unanswered; most requests come and go between two rings."""
        self._is_closed = False
        self._is_lost = asyncio.Event()

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
        made = cls(address, client_id=client_id, timeout_s=timeout_s, max_frame_bytes=max_frame_bytes)
        try:
            async with asyncio.timeout(timeout_s):
                await made._loop.create_connection(lambda: made, address.host, address.port)
        except (OSError, UnicodeError) as error:
            raise unreachable(address, error) from error
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
        await self.wait_closed()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_closed or self._transport.is_closing()

    @property
    def unanswered(self) -> int:
        """How many requests wait for their answers."""
        return len(self._answers)

    def send(self, request: Request[T], *, timeout_s: float | None = None) -> "asyncio.Future[T]":
        """Send one request; the future has its answer, or what ended the connection before it came."""
        return self._send(request, version=None, timeout_s=self._timeout_s if timeout_s is None else timeout_s)

    def close(self) -> None:
        """End the connection now."""
        self._end(BrokerUnavailable(f"the connection to {self.address} is closed"))

    async def wait_closed(self) -> None:
        """Wait until the socket of a connection that was closed is closed too."""
        await self._is_lost.wait()

    def _send(self, request: Request[T], *, version: int | None, timeout_s: float) -> "asyncio.Future[T]":
        assert request.has_answer, "a request without an answer cannot be waited for"
        if self.is_closed:  # a transport that is closing and gets more to write (3.12) spoils its descriptor for the next connection
            raise BrokerUnavailable(f"the connection to {self.address} is closed")
        _, pieces = self._conversation.ask(request, version=version)
        answer: _Answer[T] = _Answer(self._loop, deadline=self._loop.time() + timeout_s, on_cancel=self.close)
        self._answers.append(answer)
        self._transport.writelines(pieces)
        if self._timer is None or answer.deadline < self._timer.when():
            self._ring_at(answer.deadline)
        return answer

    def _end(self, error: MillstreamError) -> None:
        """Close, and let everyone who waits know why; what happens after that has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        while self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # seen: of several under way most callers await only the first

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

    # --- called by asyncio's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._conversation.target()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for pending in self._conversation.received(nbytes):
                content = pending.answer()
                self._answers.popleft().set_result(content)
        except (MalformedFrame, KafkaError) as error:
            self._end(broken(self.address, error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(broken(self.address, exc))
        self._is_lost.set()


class _Answer(asyncio.Future[T]):
    """An answer that is due; cancelling it ends the connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, deadline: float, on_cancel: Callable[[], None]) -> None:
        super().__init__(loop=loop)
        self.deadline = deadline
        self._on_cancel = on_cancel

    def cancel(self, msg: Any | None = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._on_cancel()
        return is_cancelled
