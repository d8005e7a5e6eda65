"""A blocking connection to one broker, with as many requests under way as the caller likes.

    with Connection(Address("localhost", 9092)) as connection:
        first = connection.send(FetchRequest([FetchFrom("clicks", 0, offset=0)]))
        second = connection.send(FetchRequest([FetchFrom("clicks", 1, offset=0)]))   # does not wait for the first
        answer = connection.receive(first)
        connection.receive(second)
        metadata = read_metadata(connection.call(metadata_request(["clicks"])))

Answers come in the order of the requests; one that was received on the way to a later one is kept until it is asked for. A connection
belongs to one thread, but `close` may be called from any: whoever waits then gets `BrokerUnavailable`. After a timeout, a broken frame or
an end by the broker the connection is closed and stays so; the record batches of an answer live as long as they are referred to.
`client.async_connection` is the same for an event loop.

Whatever opens sockets has the shape of `OpenSocket`; the default is plain TCP without Nagle's delay. `security` says whether TLS is put
around it (`client.tls`) and who logs in (`client.login`): when the constructor returns both are done, and a login whose life the broker
limits is renewed before a request that comes late in it.
"""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, Self, TypeVar

from millstream.address import Address
from millstream.buffer import Buffer
from millstream.client.codecs.api_versions import HANDSHAKE_VERSIONS, ApiVersionsRequest
from millstream.client.codecs.request import Request
from millstream.client.conversation import Conversation, Pending
from millstream.client.errors import BrokerUnavailable, broken, unreachable
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.errors import MalformedFrame

T = TypeVar("T")

OpenSocket = Callable[[Address, float], socket.socket]
"""Connect to the address within so many seconds; `BrokerUnavailable` if that cannot be done."""

CLIENT_ID: Final = "millstream"
TIMEOUT_S: Final = 30.0
MOST_PIECES: Final = 512
"""Fewer than the kernel's limit of buffers in one call."""


def open_tcp(address: Address, timeout_s: float) -> socket.socket:
    """A plain TCP connection."""
    try:
        opened = socket.create_connection((address.host, address.port), timeout=timeout_s)
    except (OSError, UnicodeError) as error:
        raise unreachable(address, error) from error
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


class Connection:
    """One connection to one broker; connected, logged in, and the broker's versions known, when the constructor returns."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str = CLIENT_ID,
        timeout_s: float = TIMEOUT_S,
        security: ClientSecurity = NO_SECURITY,
        open_socket: OpenSocket = open_tcp,
    ) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._security = security
        self._log_in_at: float | None = None
        """When the login has to be renewed."""
        self._is_closed = False
        self._conversation = Conversation(client_id=client_id, keeps_memory=True)
        self._socket = _with_tls(open_socket(address, timeout_s), security, address)
        try:
            for version in HANDSHAKE_VERSIONS:
                if self._conversation.learn(self.receive(self._send(ApiVersionsRequest(), version=version))):
                    break
            if security.sasl is not None:
                self._log_in()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_closed

    @property
    def unanswered(self) -> int:
        """How many requests wait for their answers."""
        return self._conversation.unanswered

    def call(self, request: Request[T], *, timeout_s: float | None = None) -> T:
        """Send one request and wait for its answer."""
        return self.receive(self.send(request), timeout_s=timeout_s)

    def send(self, request: Request[T]) -> Pending[T]:
        """Send one request without waiting for its answer; one that has no answer must not be received."""
        if self._log_in_at is not None and monotonic() >= self._log_in_at:
            self._log_in()
        return self._send(request, version=None)

    def receive(self, pending: Pending[T], *, timeout_s: float | None = None) -> T:
        """The answer to a request of this connection; waits for it as long as the connection's timeout says, or this one."""
        assert pending.request.has_answer, "a request without an answer cannot be received"
        deadline = monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        try:
            while not pending.is_answered:
                self._receive(deadline)
            return pending.answer()
        except BaseException as error:
            self._end(error)
            raise

    def close(self) -> None:
        """End the connection, from whatever thread."""
        self._is_closed = True
        with suppress(OSError):  # it may not be connected any more
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _log_in(self) -> None:
        from millstream.client.security.login import log_in, require_login  # only who logs in needs it
        from millstream.client.security.oauth_token import token_of

        try:
            require_login(self._conversation, self._security, self.address)
            steps = log_in(self._security, self.address, token_of(self._security))
            answer = None
            while True:
                try:
                    request = steps.send(answer)
                except StopIteration as end:
                    self._log_in_at = None if end.value is None else monotonic() + end.value
                    return
                answer = self.receive(self._send(request, version=None))
        except BaseException:
            self.close()
            raise

    def _send(self, request: Request[T], *, version: int | None) -> Pending[T]:
        self._check_open()
        pending, pieces = self._conversation.ask(request, version=version)
        try:
            self._send_all(pieces, deadline=monotonic() + self._timeout_s)
        except BaseException as error:
            self._end(error)
            raise
        return pending

    def _send_all(self, pieces: Sequence[Buffer], *, deadline: float) -> None:
        left = [memoryview(piece) for piece in pieces]
        while left:
            self._wait_until(deadline)
            sent = self._socket.sendmsg(left[:MOST_PIECES])
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def _receive(self, deadline: float) -> None:
        self._check_open()
        self._wait_until(deadline)
        count = self._socket.recv_into(self._conversation.target())
        if not count:
            raise broken(self.address, None, self._security.hint(self._conversation.answered))
        self._conversation.received(count)

    def _wait_until(self, deadline: float) -> None:
        """Let the next call of the socket wait so long; a peer that is slow, rather than silent, does not move the deadline."""
        left_s = deadline - monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def _check_open(self) -> None:
        if self._is_closed:
            raise BrokerUnavailable(f"the connection to {self.address} is closed")

    def _end(self, error: BaseException) -> None:
        """Whatever happens between two bytes of a frame, an interrupt too, ends the connection: the next byte would be misread."""
        self.close()
        if isinstance(error, OSError | MalformedFrame):
            raise broken(self.address, error, self._security.hint(self._conversation.answered)) from error


def _with_tls(plain: socket.socket, security: ClientSecurity, address: Address) -> socket.socket:
    if security.tls is None:
        return plain
    from millstream.client.security.tls import wrap  # only who uses TLS needs it

    return wrap(plain, security.tls, address)
