"""The answer to a request that a coordinator decides, which may come at once, later, or from several coordinators.

A `CoordinatorReply` is what the machines call a waiter: handed in with an operation, given back with the fields of the answer. While the
handler still runs an answer is only kept, and the handler returns it like any other: no place in the queue, no task. After that the
connection keeps a place for it. A client that went away meanwhile costs nothing: its place is gone, and the answer goes nowhere.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from millstream.broker.network.api import Fields, Request
from millstream.broker.network.connection import PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.errors import KafkaError

logger = logging.getLogger(__name__)

Refusal = Callable[[KafkaError], Fields]
"""The fields of the answer that says an error, in the shape of its API."""
Encode = Callable[[Request, Fields], bytes]
"""Writes the answer."""
Shape = Callable[[Fields], Fields]
"""Makes the answer of a coordinator fit the version of the request, where leaving out fields is not enough."""


class CoordinatorReply:
    """The answer to one request."""

    __slots__ = ("_encode", "_fields", "_pending", "_refuse", "_request", "_shape")

    def __init__(self, request: Request, refuse: Refusal, *, shape: Shape | None = None, encode: Encode = Request.encode) -> None:
        self._request = request
        self._refuse = refuse
        self._shape = shape
        self._encode = encode
        self._fields: Fields | None = None
        self._pending: PendingReply | None = None

    def answer(self, fields: Fields) -> None:
        """Keep the answer for the handler, or send it if the handler is over."""
        if self._shape is not None:
            fields = self._shape(fields)
        if self._pending is None:
            self._fields = fields
        else:
            self._send(self._pending, fields)

    def fail(self, error: KafkaError) -> None:
        """Answer with an error."""
        self.answer(self._refuse(error))

    def result(self) -> Sequence[Chunk] | None:
        """What the handler returns: the answer if there is one already; otherwise a place is kept for it."""
        if self._fields is not None:
            return (self._encode(self._request, self._fields),)
        # The bytes are not good any longer when the handler has returned.
        self._request.frame = memoryview(b"")
        self._pending = self._request.defer()
        return None

    def _send(self, pending: PendingReply, fields: Fields) -> None:
        """Runs in the callback that made the answer ready: what goes wrong here must not fail that."""
        try:
            chunk = self._encode(self._request, fields)
        except ValueError:
            logger.exception("the answer to API %d version %d makes no sense", self._request.api_key, self._request.api_version)
            self._request.connection.close("the broker failed on its request")
            return
        pending.complete((chunk,))


class AwaitedReply:
    """An answer that a task waits for."""

    __slots__ = ("_refuse", "fields")

    def __init__(self, refuse: Refusal) -> None:
        self._refuse = refuse
        self.fields: asyncio.Future[Fields] = asyncio.get_running_loop().create_future()

    def answer(self, fields: Fields) -> None:
        """Here it is, unless the one who waited was cancelled."""
        if not self.fields.done():
            self.fields.set_result(fields)

    def fail(self, error: KafkaError) -> None:
        """An error is an answer."""
        if not self.fields.done():
            self.fields.set_result(self._refuse(error))


class GatheredReply:
    """One answer that is put together of several; sent when the last of them is there."""

    __slots__ = ("_build", "_missing", "_parts", "_reply")

    def __init__(self, reply: CoordinatorReply | AwaitedReply, count: int, build: Callable[[list[Fields]], Fields]) -> None:
        self._reply = reply
        self._parts: list[Fields] = [{}] * count
        self._missing = count
        self._build = build
        if not count:
            reply.answer(build([]))

    def part(self, number: int, refuse: Refusal) -> "ReplyPart":
        """What waits for the part of that number."""
        return ReplyPart(self, number, refuse)

    def put(self, number: int, fields: Fields) -> None:
        """A part is there."""
        self._parts[number] = fields
        self._missing -= 1
        if not self._missing:
            self._reply.answer(self._build(self._parts))


class ReplyPart:
    """One part of a gathered answer."""

    __slots__ = ("_number", "_refuse", "_whole")

    def __init__(self, whole: GatheredReply, number: int, refuse: Refusal) -> None:
        self._whole = whole
        self._number = number
        self._refuse = refuse

    def answer(self, fields: Fields) -> None:
        """Hand the part in."""
        self._whole.put(self._number, fields)

    def fail(self, error: KafkaError) -> None:
        """Hand in the error of this part."""
        self._whole.put(self._number, self._refuse(error))


def refuse_nothing(error: KafkaError) -> Fields:
    """The refusal of an answer whose parts have errors, and which has none itself."""
    raise AssertionError(f"the parts of the answer have errors, not the whole: {error}")
