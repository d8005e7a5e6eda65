"""One client's connection: a socket on the event loop, frames in, answers out.

A connection is a plain non-blocking socket with a reader callback, not an asyncio transport: receiving into a shared buffer, answering in
the same callback and `sendfile` need no task, no future and no second copy (docs/adr/0004). Requests start in the order in which they came
and are answered in that order. An answer that has to wait holds a place in the queue (`PendingReply`); later requests are begun, but
their answers wait behind it.

Every frame goes to the router, except those that a lane takes. A lane stands for a request that was admitted, and is closed when the
session becomes another one: so no frame is taken that has not passed the gate (`router.admit`), and a lane costs nothing to keep.

Bounds: a connection with too many unanswered requests, or whose peer does not read what it asked for, is not read from until that changes;
neither is one whose request has to be worked on for several turns of the loop.
The sweep of the listener closes connections that are idle, or stuck in the middle of a frame.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Final, Protocol

from millstream.broker.network.event_loop import end_of_turn, is_turn_shared
from millstream.broker.network.frame_reader import FrameReader, Frames, ReceiveBuffers
from millstream.broker.network.outbox import Chunk, Outbox
from millstream.broker.network.request_times import RequestTimes
from millstream.broker.network.session import PLAINTEXT, Session
from millstream.errors import MalformedFrame

logger = logging.getLogger(__name__)

MAX_UNANSWERED: Final = 64
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
"""Queued regions cost no memory but descriptors and time; bytes cost memory."""


class FrameHandler(Protocol):
    """Who understands the frames: the router."""

    def handle(self, connection: "Connection", frame: memoryview) -> None:
        """Handle one request; the frame is good only until this returns."""


class Lane(Protocol):
    """Handles requests that look like one that was admitted, of the same API, version and client id (`produce_run`, `fetch_lane`)."""

    def take(self, frame: memoryview) -> bool:
        """Whether the request was taken; then it is not handled otherwise."""

    def finish(self) -> None:
        """Answer what was taken, now: another kind of request comes, or the lane is closed."""

    def finish_soon(self) -> None:
        """Nothing more was received: answer what was taken within this turn of the loop (`send_answered`)."""


class PendingReply:
    """The place of an answer that is not ready yet."""

    __slots__ = ("_connection", "_count", "_key", "_started_ns", "chunks", "on_abandon")

    def __init__(self, connection: "Connection", key: int, count: int = 1, chunks: Sequence[Chunk] | None = None) -> None:
        """For the answers to so many requests of the API `key`."""
        self._connection = connection
        self._key = key
        self._count = count
        self._started_ns = connection.started_ns
        self.chunks = chunks
        self.on_abandon: Callable[[], None] | None = None
        """Called when the peer goes before the answer was ready, so that nothing waits in vain."""

    def complete(self, chunks: Sequence[Chunk]) -> None:
        """Here it is; it leaves as soon as the answers before it have left. An empty one leaves nothing."""
        self.chunks = chunks
        connection = self._connection
        connection.times.note(self._key, monotonic_ns() - self._started_ns, self._count, connection, has_waited=True)
        connection.send_completed()

    def call_at_end_of_turn(self, callback: Callable[[], None]) -> None:
        """Call back when the other requests that came together with the present one have been handled."""
        self._connection.call_at_end_of_turn(callback)


class Connection:
    """A connected client."""

    # Per server: _loop, _handler, _buffers, times. Per connection: the rest.
    def __init__(
        self,
        connected: socket.socket,
        *,
        peer: str,
        handler: FrameHandler,
        buffers: ReceiveBuffers,
        max_frame_size: int,
        times: RequestTimes,
        on_close: Callable[["Connection"], None],
        listener: str = PLAINTEXT,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.call_at_end_of_turn = end_of_turn(self._loop)
        self.is_turn_shared = is_turn_shared(self._loop)
        self._handler = handler
        self._socket = connected
        self._buffers = buffers
        self._reader = FrameReader(buffers, max_frame_size=max_frame_size)
        self._outbox = Outbox(connected)
        self._unanswered: deque[PendingReply] = deque()
        self._on_close = on_close
        self._is_handling = False
        self._is_reading = False
        self._is_writing = False
        self._has_kept_frames = False
        self._holds = 0
        """How many requests are being worked on for which others have to wait."""
        self.peer = peer
        self.session = Session(listener, host=peer.rpartition(":")[0])
        self.is_closed = False
        self._lane: Lane | None = None
        self.bytes_received = 0
        self.times = times
        self.started_ns = 0
        """When the bytes of the requests being handled were received."""
        self._answered_key = 0
        self._answered = 0
        """How many requests of that API were answered since then and are not in `times` yet."""
        self._seen: tuple[int, int] = (0, 0)
        self._resume_reading()

    def __repr__(self) -> str:
        return f"Connection({self.peer})"

    @property
    def lane(self) -> Lane | None:
        """What may take requests before the router sees them."""
        return self._lane

    @property
    def has_unanswered(self) -> bool:
        """Whether an answer has to wait, and all that follow it with it."""
        return bool(self._unanswered)

    def open_lane(self, lane: Lane, *, admitted: Session) -> None:
        """Let the lane take the requests that follow the one that was admitted, unless that is out of date."""
        if admitted is self.session:
            self._lane = lane

    def close_lane(self) -> None:
        """Let the router see every request from here on; what the lane has taken is finished."""
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.finish()

    def identify(self, session: Session) -> Session:
        """The client is known as this from here on; whatever was allowed to it before is asked for again."""
        self.close_lane()
        self.session = session
        return session

    def reply(self, chunks: Sequence[Chunk], key: int, count: int = 1) -> None:
        """Answer the request of the API `key` that is being handled, or several of them."""
        if key != self._answered_key:
            self._note_answered()
            self._answered_key = key
        self._answered += count
        if self._unanswered:
            self._unanswered.append(PendingReply(self, key, count, chunks))
        else:
            self._outbox.extend(chunks)

    def defer(self, key: int, count: int = 1) -> PendingReply:
        """Keep a place for the answer to the request of the API `key` that is being handled, or to several of them."""
        pending = PendingReply(self, key, count)
        self._unanswered.append(pending)
        return pending

    def send_completed(self) -> None:
        """Send the answers at the front of the queue that are ready."""
        if self.is_closed:
            return
        unanswered = self._unanswered
        while unanswered and unanswered[0].chunks is not None:
            self._outbox.extend(unanswered.popleft().chunks or ())
        if not self._is_handling:
            self._drain()

    def send_answered(self) -> None:
        """Send the answers to requests that were answered after the callback in which they came."""
        self.send_completed()
        if not self._is_handling:
            self._note_answered()

    def hold(self, kept_bytes: int = 0) -> None:
        """Handle no further request until `release`: the one being handled takes several turns of the loop, and others may build on it.

        The requests of a run (`lane`) are handled together, so that several may hold: each has to release. What is kept of it until then
        counts as a request in flight.
        """
        self._holds += 1
        self._buffers.held_bytes += kept_bytes

    def release(self, kept_bytes: int = 0) -> None:
        """Go on with the requests that were held, unless another one holds them."""
        self._holds -= 1
        self._buffers.held_bytes -= kept_bytes
        if not self.is_closed and not self._is_handling:
            self._balance()

    def close(self, reason: str | None = None) -> None:
        """Close the socket and forget the peer; a reason is worth a line in the log."""
        if self.is_closed:
            return
        self.is_closed = True
        if reason is not None:
            logger.warning("closed the connection from %s: %s", self.peer, reason)
        descriptor = self._socket.fileno()
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        self._socket.close()
        self._reader.release()
        self._outbox.clear()
        unanswered, self._unanswered = self._unanswered, deque()
        for pending in unanswered:
            if pending.on_abandon is not None:
                pending.on_abandon()
        self._on_close(self)

    def has_moved(self) -> bool:
        """Whether bytes came or an answer is awaited since the last time this was asked; the sweep's question."""
        seen, self._seen = self._seen, (self.bytes_received, self._outbox.queued_bytes)
        return seen != self._seen or bool(self._unanswered)

    @property
    def is_inside_frame(self) -> bool:
        """Whether the peer has sent the beginning of a frame and not its end."""
        return self._reader.is_inside_frame

    def _readable(self) -> None:
        if self._has_kept_frames:
            # They come first; what the socket holds is read after them.
            return
        try:
            count = self._socket.recv_into(self._reader.target())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if count == 0:
            self.close()
            return
        self.started_ns = monotonic_ns()
        self.bytes_received += count
        self._handle(count)
        if self._answered:
            answered, self._answered = self._answered, 0
            self.times.note(self._answered_key, monotonic_ns() - self.started_ns, answered, self)

    def _handle(self, count: int) -> None:
        """Handle the frames that are complete with `count` more bytes, until there is too much to answer: the rest is kept."""
        self._is_handling = True
        malformed = None
        frames: Frames = ()
        try:
            frames = self._reader.received(count)
            for frame in frames:
                lane = self._lane
                if lane is not None:
                    if lane.take(frame):
                        continue
                    lane.finish()
                    if self.is_closed:
                        return
                self._handler.handle(self, frame)
                if self.is_closed:
                    return
                if self._is_full():
                    self._has_kept_frames = True
                    break
        except MalformedFrame as error:
            malformed = str(error)
        finally:
            if type(frames) is not tuple:
                frames.close()  # type: ignore[union-attr]  # mypy does not narrow by `type`
            self._is_handling = False
        if self._lane is not None:
            self._lane.finish_soon()
        if not self.is_closed and not (self._outbox.queued_bytes == 0 and self._is_steady()):
            self._drain()
        if malformed is not None:
            self.close(malformed)

    def _note_answered(self) -> None:
        count, self._answered = self._answered, 0
        if count:
            self.times.note(self._answered_key, monotonic_ns() - self.started_ns, count, self)

    def _drain(self) -> None:
        try:
            is_drained = self._outbox.drain()
        except (ConnectionError, TimeoutError):
            self.close()
            return
        except OSError as error:
            self.close(f"an answer could not be sent: {error.strerror or error}")
            return
        if is_drained:
            if self._is_writing:
                self._loop.remove_writer(self._socket.fileno())
                self._is_writing = False
            elif self._is_steady():
                return
        elif not self._is_writing:
            self._loop.add_writer(self._socket.fileno(), self._drain)
            self._is_writing = True
        self._balance()

    def _is_steady(self) -> bool:
        """Whether it is read from, and nothing has to change about that."""
        is_at_rest = self._is_reading and not self._is_writing and not self._has_kept_frames
        return is_at_rest and not self._holds and len(self._unanswered) < MAX_UNANSWERED

    def _is_full(self) -> bool:
        return self._holds > 0 or len(self._unanswered) >= MAX_UNANSWERED or self._outbox.queued_bytes >= MAX_QUEUED_BYTES

    def _balance(self) -> None:
        """Read no further while there is too much to answer, and go on when there is not."""
        is_full = self._is_full()
        if is_full and self._is_reading:
            self._loop.remove_reader(self._socket.fileno())
            self._is_reading = False
        elif not is_full and self._has_kept_frames:
            self._loop.call_soon(self._handle_kept)
        elif not is_full and not self._is_reading:
            self._resume_reading()

    def _resume_reading(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._readable)
        self._is_reading = True

    def _handle_kept(self) -> None:
        """Handle the requests that were kept when there was too much to answer; no new bytes need come for them."""
        if self._has_kept_frames and not self.is_closed and not self._is_full():
            self._has_kept_frames = False
            self._reader.target()
            self.started_ns = monotonic_ns()
            self._handle(0)
            self._note_answered()
