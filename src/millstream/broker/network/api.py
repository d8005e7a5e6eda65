"""The contract of a handler: how a function says which API it answers, and what it may answer with.

A function marked with `@api(key, lowest, highest)` takes a `Request` and returns one of:
- a mapping: the fields of the answer by Kafka's names; the router encodes it for the version asked;
- a sequence of chunks: the encoded answer (Produce and Fetch, which have codecs of their own);
- None: there is no answer, or it has been deferred with `request.defer()`.

An `async def` may return a mapping; it runs as a task of the server's, and its place in the order of answers is kept. Only APIs that wait
for something else than a watermark are written that way: never Produce, never Fetch.

What only the controller can do is marked with `forwarding`: any broker may be asked for it, and passes the request on (KIP-590).
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar, cast

from millstream.broker.network.connection import Connection, Lane, PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.session import Session
from millstream.wire import messages
from millstream.wire.api import OWN_KEYS, ApiKey
from millstream.wire.frames import RequestHeader

Fields = Mapping[str, object]
Later = Coroutine[Any, Any, Fields]
Reply = Fields | Sequence[Chunk] | None
Handler = Callable[["Request"], Reply | Coroutine[Any, Any, Reply]]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Forwarding(Enum):
    """Whether the controller is needed for an API."""

    NONE = "every broker answers it by itself"
    WHOLE = "the router passes it on, and the handler runs on the controller only"
    PARTS = "the handler runs on the broker that is asked, and passes on what it cannot do by itself"


class Api(NamedTuple):
    """Which API a function answers, in which versions."""

    key: ApiKey
    lowest: int
    highest: int
    advertised_lowest: int
    """What ApiVersions says; lower than `lowest` only where clients misread the truth."""
    forwarding: Forwarding = Forwarding.NONE
    is_own: bool = False
    """Whether Kafka does not have it: only our own clients may use it."""


class Request:
    """A request that was admitted: its header, its bytes (only until the handler returns), its connection and whose it is."""

    __slots__ = (
        "api_key",
        "api_version",
        "body_start",
        "client_id",
        "connection",
        "correlation_id",
        "frame",
        "is_forwarded",
        "session",
        "timed_as",
    )

    def __init__(self, connection: Connection, header: RequestHeader, frame: memoryview, *, forwarded_for: Session | None = None) -> None:
        """`forwarded_for`: the client of the broker that passed the request on; the connection is then not the client's."""
        self.connection = connection
        self.session = connection.session if forwarded_for is None else forwarded_for
        self.is_forwarded = forwarded_for is not None
        self.frame = frame
        self.api_key, self.api_version, self.correlation_id, self.client_id, self.body_start = header
        self.timed_as = self.api_key
        """Under which key its time is counted (`request_times`)."""

    def decode(self) -> Any:
        """The request (`wire.requests`); fields that the version does not have are Kafka's defaults."""
        return messages.decode_request(self.api_key, self.api_version, body=self.frame, start=self.body_start)

    def encode(self, fields: Fields) -> bytes:
        """The answer to this request, in its version."""
        return messages.encode_response(self.api_key, self.api_version, correlation_id=self.correlation_id, reply=fields)

    def open_lane(self, lane: Lane) -> None:
        """Let requests that look like this one go to `lane` from here on, for as long as what was asked for this one holds."""
        self.connection.open_lane(lane, admitted=self.session)

    def defer(self) -> PendingReply:
        """Keep a place for the answer."""
        return self.connection.defer(self.timed_as)


def api(
    key: ApiKey, lowest: int, highest: int, *, advertised_lowest: int | None = None, forwarding: Forwarding = Forwarding.NONE
) -> Callable[[FunctionT], FunctionT]:
    """Mark a function as the handler of an API."""

    def mark(function: FunctionT) -> FunctionT:
        advertised = lowest if advertised_lowest is None else advertised_lowest
        cast(Any, function).api = Api(key, lowest, highest, advertised, forwarding, is_own=key in OWN_KEYS)
        return function

    return mark


def api_of(handler: Callable[..., Any]) -> Api:
    """What a marked function answers."""
    return cast(Any, handler).api  # type: ignore[no-any-return]
