"""One client's connection to the coordination server: bytes in, requests done in order, replies out in the same order.

per connection   the receive buffer, the outbox, whether reading is paused
per client       the session, the identities it has proved, its watches

The reply to a write waits in the outbox until the journal is on the disk; whatever follows it waits behind it, so a client gets its
answers in the order of its requests. Nothing from outside is unbounded: a frame has a largest size, the handshake a deadline, and a peer
that does not read (or writes faster than the disk) is not read from either. Such a peer is not heard any more, so its session times out,
and that ends it.
"""

import asyncio
import hmac
import logging
from collections import deque
from typing import TYPE_CHECKING

from millstream.zookeeper.acl import OPEN_TO_ALL, READ, Acl, Identity, is_granted
from millstream.zookeeper.errors import AuthenticationFailed, ConnectionLost, MarshallingError, Unimplemented, ZooKeeperError
from millstream.zookeeper.jute import JuteReader
from millstream.zookeeper.protocol import (
    LENGTH,
    Opcode,
    check_length,
    decode_connect,
    encode_connected,
    encode_event,
    encode_reply,
    read_request_header,
)
from millstream.zookeeper.requests import HANDLERS, KNOWN_BUT_UNIMPLEMENTED, Requester
from millstream.zookeeper.watches import WatchEvent

if TYPE_CHECKING:
    from millstream.zookeeper.server import CoordinationServer

_log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 10.0
_MOST_UNANSWERED_WRITES = 1_000
_MOST_REQUESTS_AT_ONCE = 50


class Connection(asyncio.Protocol):
    """A ZooKeeper client, from its handshake to its end."""

    def __init__(self, server: "CoordinationServer") -> None:
        self._server = server
        self._keeper = server.keeper
        self._buffer = bytearray()
        self._outbox: deque[bytearray] = deque()
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_work_scheduled = False
        self._is_ending = False
        self._requester: Requester | None = None
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self.peer = ""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
        if not self._server.admit(self):
            transport.abort()
            return
        self._handshake_timer = asyncio.get_running_loop().call_later(_HANDSHAKE_SECONDS, self.abort)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._work()

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._work()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_ending = True
        self._cancel_handshake_timer()
        self._keeper.watches.forget(self.deliver)
        self._server.forget(self)

    # What the server and the tree call.

    @property
    def session_id(self) -> int:
        """The client's session, 0 before the handshake."""
        return 0 if self._requester is None else self._requester.session.session_id

    def deliver(self, event: WatchEvent, acl: Acl) -> None:
        """Send a watch event, behind everything that was answered before it, if the client may read the znode."""
        if self._requester is None or acl is OPEN_TO_ALL or is_granted(acl, READ, self._requester.identities):
            self._send(encode_event(event))

    def abort(self) -> None:
        """Drop the connection; the session stays until it times out or is taken up again."""
        self._is_ending = True
        self._transport.abort()

    # Reading.

    def _work(self) -> None:
        """Do the requests that are in the buffer, as long as the answers can leave: some now, the rest when others had their turn."""
        self._is_work_scheduled = False
        budget = _MOST_REQUESTS_AT_ONCE
        try:
            while budget and not self._is_ending and not self._is_held_up() and (frame := self._next_frame()) is not None:
                budget -= 1
                self._server.received += 1
                if self._requester is None:
                    self._connect(frame)
                else:
                    self._request(self._requester, frame)
        except ConnectionLost as error:
            _log.warning("coordination client %s is dropped: %s", self.peer, error)
            self.abort()
        except MarshallingError as error:
            _log.warning("coordination client %s broke the protocol: %s", self.peer, error)
            self.abort()
        if not budget:
            self._schedule_work()
        self._adjust_reading()

    def _schedule_work(self) -> None:
        if not self._is_work_scheduled:
            self._is_work_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _is_held_up(self) -> bool:
        return self._is_writing_paused or len(self._outbox) >= _MOST_UNANSWERED_WRITES

    def _adjust_reading(self) -> None:
        should_pause = self._is_work_scheduled or self._is_held_up()
        if should_pause != self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = should_pause
            if should_pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _next_frame(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < LENGTH.size:
            return None
        if self._requester is None and (text := self._server.answer_word(bytes(buffer[:4]))) is not None:
            self._send(text.encode())
            self._end()
            return None
        (length,) = LENGTH.unpack_from(buffer)
        check_length(length, limit=self._server.max_frame_bytes)
        end = LENGTH.size + length
        if len(buffer) < end:
            return None
        frame = bytes(buffer[LENGTH.size : end])
        del buffer[:end]
        return frame

    # The handshake.

    def _connect(self, frame: bytes) -> None:
        request = decode_connect(frame)
        keeper = self._keeper
        if request.last_zxid_seen > keeper.tree.last_zxid:
            # Another server's client, or our own directory was set back: letting it in would show it the past.
            raise ConnectionLost(f"it has seen zxid {request.last_zxid_seen:#x}, this tree is at {keeper.tree.last_zxid:#x}")
        self._cancel_handshake_timer()
        if request.session_id == 0:
            session = self._server.open_session(request.timeout_ms)
        else:
            found = keeper.tree.sessions.get(request.session_id)
            if found is None or found.name or not hmac.compare_digest(found.password, request.password):
                self._send(encode_connected(timeout_ms=0, session_id=0, password=bytes(16), has_read_only=request.has_read_only))
                self._end()
                return
            session = found
            keeper.touch(session)
        address = Identity("ip", self.peer.rpartition(":")[0])
        self._requester = Requester(keeper, session, identities=frozenset({address}), watcher=self.deliver)
        self._server.attach(self)
        self._send_durably(
            encode_connected(
                timeout_ms=session.timeout_ms,
                session_id=session.session_id,
                password=session.password,
                has_read_only=request.has_read_only,
            )
        )

    # Requests.

    def _request(self, requester: Requester, frame: bytes) -> None:
        reader = JuteReader(frame)
        xid, opcode = read_request_header(reader)
        keeper = self._keeper
        keeper.durability.require_online()
        keeper.touch(requester.session)
        if opcode == Opcode.CLOSE_SESSION:
            keeper.close_session(requester.session.session_id)
            self._send_durably(encode_reply(xid, zxid=keeper.tree.last_zxid))
            self._end()
            return
        zxid_before = keeper.tree.last_zxid
        try:
            body = self._handle(requester, reader, opcode)
        except ConnectionLost:
            raise
        except ZooKeeperError as error:
            self._send(encode_reply(xid, zxid=keeper.tree.last_zxid, error=error.code))
            if isinstance(error, AuthenticationFailed) or not (opcode in HANDLERS or opcode in KNOWN_BUT_UNIMPLEMENTED):
                self._end()
            return
        reply = encode_reply(xid, body, zxid=keeper.tree.last_zxid)
        if keeper.tree.last_zxid != zxid_before:
            self._send_durably(reply)
        else:
            self._send(reply)

    def _handle(self, requester: Requester, reader: JuteReader, opcode: int) -> bytes:
        handler = HANDLERS.get(opcode)
        if handler is None:
            raise Unimplemented(f"opcode {opcode}")
        return handler(requester, reader, opcode)

    # Writing.

    def _send(self, frame: bytes) -> None:
        self._server.sent += 1
        if self._outbox:
            self._outbox[-1] += frame
        elif not self._transport.is_closing():
            self._transport.write(frame)

    def _send_durably(self, frame: bytes) -> None:
        self._server.sent += 1
        self._outbox.append(bytearray(frame))
        self._keeper.durability.when_durable(self._release)

    def _release(self) -> None:
        if not self._outbox:
            return
        frames = self._outbox.popleft()
        if not self._transport.is_closing():
            self._transport.write(frames)
            if self._is_ending and not self._outbox:
                self._transport.close()
            elif self._is_reading_paused:
                self._schedule_work()

    def _end(self) -> None:
        """Close once everything in the outbox has gone."""
        self._is_ending = True
        if not self._outbox:
            self._transport.close()

    def _cancel_handshake_timer(self) -> None:
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
            self._handshake_timer = None
