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

`security` adds TLS and a login. While a login is renewed, because the broker limits its life, requests are held back: nothing else may be
sent in between.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, cast

from millstream.address import Address
from millstream.client.codecs.api_versions import HANDSHAKE_VERSIONS, ApiVersionsRequest
from millstream.client.codecs.frames import MAX_ANSWER_BYTES
from millstream.client.codecs.request import Request
from millstream.client.connection import CLIENT_ID, TIMEOUT_S
from millstream.client.conversation import Conversation
from millstream.client.direct_transport import DirectTransport
from millstream.client.errors import BrokerUnavailable, broken, unreachable
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.errors import KafkaError, MalformedFrame, MillstreamError

T = TypeVar("T")


class AsyncConnection(asyncio.BufferedProtocol):
    """One connection to one broker; `open` makes one that is connected, logged in, and knows the broker's versions."""

    def __init__(
        self, address: Address, *, client_id: str, timeout_s: float, max_frame_bytes: int, security: ClientSecurity = NO_SECURITY
    ) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._security = security
        self._log_in_at: float | None = None
        """When the login has to be renewed."""
        self._held: deque[tuple[Request[Any], _Answer[Any] | _Call[Any]]] | None = None
        """What is to be sent when the login has been renewed; None while none is being renewed."""
        self._renewal: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._conversation = Conversation(client_id=client_id, max_frame_bytes=max_frame_bytes)
        self._transport: asyncio.Transport | DirectTransport
        self._answers: deque[_Answer[Any] | _Call[Any]] = deque()
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
        security: ClientSecurity = NO_SECURITY,
    ) -> Self:
        """Connect; BrokerUnavailable if that cannot be done in time. An answer above `max_frame_bytes` ends the connection."""
        made = cls(address, client_id=client_id, timeout_s=timeout_s, max_frame_bytes=max_frame_bytes, security=security)
        await made._connect()
        try:
            for version in HANDSHAKE_VERSIONS:
                if made._conversation.learn(await made._send(ApiVersionsRequest(), version=version, timeout_s=timeout_s)):
                    break
            if security.sasl is not None:
                await made._log_in()
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
        answer = self._answer(self._timeout_s if timeout_s is None else timeout_s)
        self._send_or_hold(request, answer)
        return answer

    def call(
        self, request: Request[T], *, on_answer: Callable[[T], None], on_failure: Callable[[MillstreamError], None], timeout_s: float
    ) -> object:
        """Send one request and call back with its answer, or with what ended the connection; neither callback may raise."""
        awaited = _Call(on_answer, on_failure, deadline=self._loop.time() + timeout_s)
        self._send_or_hold(request, awaited)
        return awaited

    def close(self) -> None:
        """End the connection now."""
        self._end(BrokerUnavailable(f"the connection to {self.address} is closed"))

    async def wait_closed(self) -> None:
        """Wait until the socket of a connection that was closed is closed too."""
        await self._is_lost.wait()

    async def _connect(self) -> None:
        context = None
        if self._security.tls is not None:
            from millstream.client.security.tls import context_for  # only who uses TLS needs it

            context = context_for(self._security.tls)
        host, port = self.address
        try:
            async with asyncio.timeout(self._timeout_s):
                if context is None:
                    self._transport = await DirectTransport.open(self.address, self)
                else:
                    await self._loop.create_connection(lambda: self, host, port, ssl=context, server_hostname=host)
        except (OSError, UnicodeError) as error:
            if context is not None and not isinstance(error, ConnectionRefusedError | TimeoutError | UnicodeError):
                from millstream.client.security.tls import explain

                raise explain(error, self.address) from error
            raise unreachable(self.address, error) from error

    async def _log_in(self) -> None:
        from millstream.client.security.login import log_in, require_login  # only who logs in needs it
        from millstream.client.security.oauth_token import token_of

        require_login(self._conversation, self._security, self.address)
        # A token may have to be asked for; the others cost nothing.
        token = await asyncio.to_thread(token_of, self._security) if self._security.has_token else ""
        steps = log_in(self._security, self.address, token)
        answer = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as end:
                self._log_in_at = None if end.value is None else self._loop.time() + end.value
                return
            answer = await self._send(request, version=None, timeout_s=self._timeout_s)

    def _send_or_hold(self, request: Request[T], awaited: "_Answer[T] | _Call[T]") -> None:
        """Send it, when the login is renewed if it has to be."""
        self._check_open()
        if self._log_in_at is None or (self._held is None and self._loop.time() < self._log_in_at):
            self._transmit(request, awaited, version=None)
            return
        if self._held is None:
            self._held = deque()
            self._renewal = self._loop.create_task(self._renew())
        self._held.append((request, awaited))

    async def _renew(self) -> None:
        try:
            await self._log_in()
        except Exception as error:  # noqa: BLE001 -- handed on to whoever waits: what is held would wait for ever
            self._end(broken(self.address, error))
            return
        held, self._held = self._held or deque(), None
        for request, answer in held:
            try:
                self._transmit(request, answer, version=None)
            except MillstreamError as error:
                answer.fail(error)

    def _send(self, request: Request[T], *, version: int | None, timeout_s: float) -> "asyncio.Future[T]":
        self._check_open()
        answer: _Answer[T] = self._answer(timeout_s)
        self._transmit(request, answer, version=version)
        return answer

    def _answer(self, timeout_s: float) -> "_Answer[Any]":
        return _Answer(self._loop, deadline=self._loop.time() + timeout_s, on_cancel=self.close)

    def _check_open(self) -> None:
        if self.is_closed:  # a transport that is closing and gets more to write (3.12) spoils its descriptor for the next connection
            raise BrokerUnavailable(f"the connection to {self.address} is closed")

    def _transmit(self, request: Request[T], answer: "_Answer[T] | _Call[T]", *, version: int | None) -> None:
        assert request.has_answer, "a request without an answer cannot be waited for"
        _, pieces = self._conversation.ask(request, version=version)
        self._answers.append(answer)
        self._transport.writelines(pieces)
        if self._timer is None or answer.deadline < self._timer.when():
            self._ring_at(answer.deadline)

    def _end(self, error: MillstreamError) -> None:
        """Close, and let everyone who waits know why; what happens after that has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        unanswered = [*self._answers, *(answer for _, answer in self._held or ())]
        self._answers.clear()
        self._held = None
        for answer in unanswered:
            answer.fail(error)

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
                self._answers.popleft().deliver(content)
                if self._is_closed:
                    return
        except (MalformedFrame, KafkaError) as error:
            self._end(broken(self.address, error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(broken(self.address, exc, self._security.hint(self._conversation.answered)))
        self._is_lost.set()


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
