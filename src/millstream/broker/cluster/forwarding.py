"""Requests that only the controller can carry out, at whichever broker they come (KIP-590).

A request goes to the controller in an `Envelope`, and its answer is given to the client as it came. The broker that is the controller
carries it out itself, the same way, without a socket. While there is no controller, as in an election, the request waits for one until its
time is up; what is answered then is what this broker can say by itself: NOT_CONTROLLER, wherever something had to be written.

When the answer is there, this broker has seen what was done: a topic that was created is known here as it is on the controller.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from millstream.broker.cluster.controller_channel import ControllerChannel
from millstream.broker.cluster.peers import Peers
from millstream.broker.network.api import Reply, Request
from millstream.broker.network.connection import Connection
from millstream.broker.network.router import CarriedOut
from millstream.broker.network.session import Session
from millstream.client.codecs.request import Request as AnyRequest
from millstream.client.errors import BrokerUnavailable, kafka_error
from millstream.coordination.cluster_watcher import CHANGES, ClusterWatcher, Stale
from millstream.errors import MalformedFrame, NotController
from millstream.replication_errors import BrokerIdNotRegistered, StaleBrokerEpoch
from millstream.wire import messages
from millstream.wire.api import ApiKey
from millstream.wire.frames import encode_request_header, read_response_header
from millstream.wire.primitives import INT32

if TYPE_CHECKING:
    from millstream.broker.cluster.envelope import Envelope, EnvelopeAnswer

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS: Final = 15_000
"""Of requests that do not say how long they may take: half of what clients wait by default, so that they get the answer."""
SHORTEST_TIMEOUT_MS: Final = 10_000
"""An election is waited for, however short the time that a client gives for the work itself: librdkafka gives none by default."""
LONGEST_TIMEOUT_MS: Final = 60_000
"""As in Kafka; whatever a client gives, its request is not kept for hours."""
LARGEST_REQUEST_BYTES: Final = messages.MAX_REQUEST_BYTES - 128 * 1024
"""With what the envelope adds it must be below the limit of a request: one above it would end the connection that others use too."""
MAX_CONNECTIONS: Final = 8
"""To the controller, for requests that are under way at the same time: on one connection a slow one would hold up the others."""
_CATCH_UP_MS: Final = 5_000
_CREATING: Final = (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS)
_RETRY_S: Final = 0.05
_NOT_KNOWN_YET: Final = (BrokerIdNotRegistered.code, StaleBrokerEpoch.code)
"""A controller that has not seen yet that this broker is registered, or this broker is not: its session has ended, the next one begins."""


class CarryOut(Protocol):
    """`Router.carry_out`."""

    def __call__(self, connection: Connection, client: Session, frame: bytes) -> Awaitable[CarriedOut]:
        """Handle a request in this broker as the controller."""


class _Line:
    """A way to the controller, and how many requests use it."""

    def __init__(self, peers: Peers, channel: ControllerChannel) -> None:
        self.peers = peers
        self.channel = channel
        self.under_way = 0


class RequestForwarding:
    """Passes requests on."""

    def __init__(
        self,
        watcher: ClusterWatcher,
        carry_out: CarryOut,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        new_peers: Callable[[], Peers],
    ) -> None:
        self._watcher = watcher
        self._carry_out = carry_out
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._new_peers = new_peers
        self._lines: list[_Line] = []

    def close(self) -> None:
        """End the connections; what is under way gets no answer."""
        for line in self._lines:
            line.peers.close()

    def forward(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """Have a client's request carried out by the controller; the answer as it is sent."""
        # Decoded here too: what makes no sense ends the connection of the client, not that of the brokers.
        timeout_ms = getattr(request.decode(), "timeout_ms", DEFAULT_TIMEOUT_MS)
        if len(request.frame) > LARGEST_REQUEST_BYTES:
            raise MalformedFrame(
                f"a request of {len(request.frame)} bytes is above the limit of {LARGEST_REQUEST_BYTES} for the controller"
            )
        bounded_ms = min(max(timeout_ms, SHORTEST_TIMEOUT_MS), LONGEST_TIMEOUT_MS)
        return self._forward(request, bytes(request.frame), timeout_ms=bounded_ms)

    async def _forward(self, request: Request, frame: bytes, *, timeout_ms: int) -> Reply:
        data = await self._ask(request, frame, timeout_ms=timeout_ms)
        return (INT32.pack(len(data)), data)

    async def ask(
        self,
        request: Request,
        api_key: ApiKey,
        version: int,
        *,
        fields: Mapping[str, object],
        timeout_ms: int,
        touched: Sequence[Stale] = (),
    ) -> Any:
        """Have the controller carry out another request for the client of this one; its answer (`wire.responses`).

        `touched`: what it changes beside topics, which this broker is to have seen then.
        """
        header = encode_request_header(api_key, version, correlation_id=request.correlation_id, client_id=request.client_id)
        frame = header + messages.encode_request_body(api_key, version, request=fields)
        data = await self._ask(request, frame, timeout_ms=timeout_ms, touched=touched)
        _, start = read_response_header(data, api_key=api_key, version=version)
        return messages.decode_response(api_key, version, body=data, start=start)

    async def _ask(self, request: Request, frame: bytes, *, timeout_ms: int, touched: Sequence[Stale] = ()) -> bytes:
        """The answer to the request in the frame: header and body."""
        from millstream.broker.cluster.envelope import Envelope  # a start is quicker without it

        envelope = Envelope(
            frame, client=request.session, connection=request.connection, broker_id=self._node_id, broker_epoch=self._broker_epoch
        )
        try:
            answer = await self._until_known(envelope, timeout_s=timeout_ms / 1000)
        except (BrokerUnavailable, NotController) as error:
            logger.warning("a request for the controller was not passed on: %s", error)
            return (await self._carry_out(envelope.connection, envelope.client, frame)).data
        if answer.error_code:
            raise kafka_error(answer.error_code, "the controller refused a request that was passed on to it")
        if self._watcher.view.controller_id != self._node_id:
            for stale in (CHANGES, *touched):
                await self._watcher.catch_up(stale, timeout_ms=_CATCH_UP_MS)
            if request.api_key in _CREATING:
                await self._watcher.until_opened(timeout_ms=_CATCH_UP_MS)
        return answer.data

    async def _until_known(self, envelope: "Envelope", *, timeout_s: float) -> "EnvelopeAnswer":
        """The controller's answer, once it has seen that this broker is registered."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            left_s = deadline - asyncio.get_running_loop().time()
            with self._free_line() as channel:
                answer = await channel.ask(envelope, timeout_s=left_s)
            if answer.error_code not in _NOT_KNOWN_YET:
                return answer
            if left_s < _RETRY_S:
                raise NotController(f"the controller has not seen within {timeout_s:g} s that this broker is registered")
            await asyncio.sleep(_RETRY_S)

    @contextmanager
    def _free_line(self) -> Iterator[ControllerChannel]:
        """A channel that no other request uses, as long as there are not too many."""
        line = min(self._lines, key=lambda line: line.under_way, default=None)
        if line is None or (line.under_way and len(self._lines) < MAX_CONNECTIONS):
            line = self._new_line()
            self._lines.append(line)
        line.under_way += 1
        try:
            yield line.channel
        finally:
            line.under_way -= 1

    def _new_line(self) -> _Line:
        watcher, peers = self._watcher, self._new_peers()
        channel = ControllerChannel(
            peers, node_id=self._node_id, view=lambda: watcher.view, until=watcher.until, local=self._carry_out_here
        )
        return _Line(peers, channel)

    async def _carry_out_here(self, request: AnyRequest[Any]) -> "EnvelopeAnswer":
        """This broker is the controller."""
        from millstream.broker.cluster.envelope import Envelope, EnvelopeAnswer

        assert isinstance(request, Envelope)
        # Shielded: what takes too long is not broken off between two writes.
        carried_out = await asyncio.shield(asyncio.ensure_future(self._carry_out(request.connection, request.client, request.frame)))
        if carried_out.is_refused:
            raise NotController(f"broker {self._node_id} is not the controller")
        return EnvelopeAnswer(0, carried_out.data)
