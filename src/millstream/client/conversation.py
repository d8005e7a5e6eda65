"""One connection without its socket: what has been asked, in which version, and which answer belongs to which question.

A broker answers the requests of a connection in the order in which they came, so the unanswered ones are a queue, and an answer with
another correlation id than the first of them means that one side has lost count: nothing that follows can be trusted.

The versions that the broker knows are learned once, by `ApiVersions` (KIP-35, KIP-511); after that each request goes out in the highest
version that both sides know. Bytes in and bytes out; the waiting is in `client.connection`, which blocks, and `client.async_connection`.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar, cast

from millstream.buffer import Buffer
from millstream.client.codecs.api_versions import Ranges
from millstream.client.codecs.frames import MAX_ANSWER_BYTES, AnswerFrames
from millstream.client.codecs.request import Request
from millstream.errors import MalformedFrame, UnsupportedVersion
from millstream.wire.api import ApiKey
from millstream.wire.frames import encode_request_header, read_response_header
from millstream.wire.primitives import INT32

T = TypeVar("T")

_LAST_CORRELATION_ID: Final = 0x7FFFFFFF
_FIRST_ANSWER_BYTES: Final = 1 << 20
"""More than any answer to ApiVersions, and less than what the first bytes of TLS or HTTP look like."""


class Pending(Generic[T]):
    """A request that was sent; `answer()` has what came back, once it has come."""

    __slots__ = ("_frame", "correlation_id", "request", "version")

    def __init__(self, request: Request[T], version: int, correlation_id: int) -> None:
        self.request = request
        self.version = version
        self.correlation_id = correlation_id
        self._frame: memoryview | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the answer has come."""
        return self._frame is not None

    def deliver(self, body: memoryview) -> None:
        """Take the body of the answer."""
        self._frame = body

    def answer(self) -> T:
        """The answer, decoded."""
        assert self._frame is not None, "the answer has not come"
        return self.request.decode(self.version, self._frame)


class Conversation:
    """The requests of one connection."""

    def __init__(self, *, client_id: str, max_frame_bytes: int = MAX_ANSWER_BYTES, keeps_memory: bool = False) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        self._unanswered: deque[Pending[Any]] = deque()
        self._spoken: Ranges = {}
        self._max_frame_bytes = max_frame_bytes
        self._frames = AnswerFrames(max_frame_bytes=min(max_frame_bytes, _FIRST_ANSWER_BYTES), keeps_memory=keeps_memory)
        self.target = self._frames.target
        """Where the next bytes are to be received."""

    @property
    def unanswered(self) -> int:
        """How many requests wait for their answers."""
        return len(self._unanswered)

    def learn(self, spoken: Ranges | None) -> bool:
        """What the broker answered to ApiVersions; whether it was asked in a version that it knows."""
        self._spoken = spoken or {}
        self._frames.max_frame_bytes = self._max_frame_bytes
        return spoken is not None

    def knows(self, api_key: int) -> bool:
        """Whether the broker has an API."""
        return api_key in self._spoken

    @property
    def answered(self) -> int:
        """How many requests have their answers, or need none."""
        return self._correlation_id - len(self._unanswered)

    def version_of(self, request: Request[object]) -> int:
        """The highest version that the request and the broker both know."""
        lowest, highest = request.versions
        spoken = self._spoken.get(request.api_key)
        if spoken is None:
            raise UnsupportedVersion(f"this broker has no {_name(request.api_key)} API; it needs a newer broker")
        chosen = min(highest, spoken[1])
        if chosen < max(lowest, spoken[0]):
            raise UnsupportedVersion(
                f"this broker speaks versions {spoken[0]} to {spoken[1]} of {_name(request.api_key)}, "
                f"this client {lowest} to {highest}: one of the two is too old"
            )
        return chosen

    def ask(self, request: Request[T], *, version: int | None = None) -> tuple[Pending[T], Sequence[Buffer]]:
        """The bytes of the request, in pieces, and what stands for its answer until it comes."""
        version = self.version_of(request) if version is None else version
        body = request.encode(version)
        self._correlation_id = self._correlation_id % _LAST_CORRELATION_ID + 1
        pending = Pending(request, version, self._correlation_id)
        header = encode_request_header(request.api_key, version, correlation_id=self._correlation_id, client_id=self._client_id)
        size = INT32.pack(len(header) + sum(map(len, body)))
        if request.has_answer:
            self._unanswered.append(pending)
        return pending, (size + header, *filter(len, body))

    def received(self, count: int) -> list[Pending[Any]]:
        """So many bytes have come into the target: the requests that have their answers now, in their order."""
        return [self.hear(frame) for frame in self._frames.received(count)]

    def hear(self, frame: memoryview) -> Pending[Any]:
        """A frame has come, without its size: the request that it answers, which now has its answer."""
        if not self._unanswered:
            raise MalformedFrame("the broker sent an answer to which there is no request")
        pending = self._unanswered.popleft()
        request = cast("Request[object]", pending.request)
        correlation_id, start = read_response_header(frame, api_key=request.api_key, version=pending.version)
        if correlation_id != pending.correlation_id:
            raise MalformedFrame(f"the broker answered request {correlation_id} when {pending.correlation_id} was due")
        pending.deliver(frame[start:])
        return pending


def _name(api_key: int) -> str:
    return ApiKey(api_key).name.title().replace("_", "")
