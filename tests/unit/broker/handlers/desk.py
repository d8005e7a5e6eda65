"""Handlers asked without a socket: a request goes in as bytes, the answer comes back as kio's entity."""

import asyncio
from collections.abc import Callable, Mapping
from inspect import iscoroutine
from typing import Any, cast

from millstream.broker.network.api import Request
from millstream.broker.network.connection import Connection, Lane, PendingReply
from millstream.broker.network.request_times import RequestTimes
from millstream.broker.network.session import Session
from millstream.files import Files
from millstream.log.region import FileRegion
from millstream.wire.frames import read_request_header
from tests.connection import decode_response, encode_request


class Desk:
    """Stands in for a connection."""

    def __init__(self) -> None:
        self.peer = "peer:1"
        self.session = Session("PLAINTEXT", "peer")
        self.closed: list[str] = []
        self.pending: list[PendingReply] = []
        self.answered = asyncio.Event()
        self.lane: Lane | None = None
        self.times = RequestTimes()
        self.started_ns = 0

    @property
    def has_unanswered(self) -> bool:
        """Whether an answer has to wait."""
        return any(pending.chunks is None for pending in self.pending)

    def call_at_end_of_turn(self, callback: Callable[[], None]) -> None:
        """There is only one request at a time."""
        asyncio.get_running_loop().call_soon(callback)

    def defer(self, key: int, count: int = 1) -> PendingReply:
        """Keep a place, as a connection does."""
        self.pending.append(PendingReply(cast(Connection, self), key, count))
        return self.pending[-1]

    def open_lane(self, lane: Lane, *, admitted: Session) -> None:
        """Requests come one by one here: who wants to use the lane asks it."""
        self.lane = lane

    def close_lane(self) -> None:
        """It is not used any more."""
        self.lane = None

    def hold(self, kept_bytes: int = 0) -> None:
        """Nothing comes behind a request."""

    def release(self, kept_bytes: int = 0) -> None:
        """Nothing was held."""

    def send_completed(self) -> None:
        """An answer is ready."""
        self.answered.set()

    def close(self, reason: str = "") -> None:
        """The handler gave the client up."""
        self.closed.append(reason)

    def abandon(self) -> None:
        """The client goes."""
        for pending in self.pending:
            if pending.on_abandon is not None:
                pending.on_abandon()

    async def ask(self, handler: Callable[[Request], Any], key: int, version: int, **fields: object) -> Any:
        """The answer, now; None if there is none yet, or will be none."""
        frame = memoryview(encode_request(key, version, fields))[4:]
        self.session = self.session._replace(client_id=read_request_header(frame).client_id)
        request = Request(cast(Connection, self), read_request_header(frame), frame)
        reply = handler(request)
        if iscoroutine(reply):
            reply = await reply
        if reply is None:
            return None
        chunks = (request.encode(reply),) if isinstance(reply, Mapping) else reply
        return decode_response(key, version, joined(chunks)[4:])[1]

    async def later(self, key: int, version: int) -> Any:
        """The answer that was deferred first, once it is there."""
        async with asyncio.timeout(20):
            while self.pending[0].chunks is None:
                self.answered.clear()
                await self.answered.wait()
        return decode_response(key, version, joined(self.pending[0].chunks)[4:])[1]


def joined(chunks: Any) -> bytes:
    """What a client would receive."""
    return b"".join(
        Files().pread(chunk.handle, chunk.length, chunk.position) if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in chunks
    )
