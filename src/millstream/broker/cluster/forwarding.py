"""Requests that only the controller can carry out, at whichever broker they come (KIP-590).

A request goes to the controller in an `Envelope`, and its answer is given to the client as it came. The broker that is the controller
carries it out itself, the same way, without a socket. While there is no controller, as in an election, the request waits for one until its
time is up; what is answered then is what this broker can say by itself: NOT_CONTROLLER, wherever something had to be written.

When the answer is there, this broker has seen what was done: a topic that was created is known here as it is on the controller.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

from millstream.broker.cluster.controller_channel import ControllerChannel
from millstream.broker.cluster.envelope import Envelope, EnvelopeAnswer
from millstream.broker.cluster.peers import Peers
from millstream.broker.network.api import Reply, Request
from millstream.broker.network.connection import Connection
from millstream.broker.network.router import CarriedOut
from millstream.broker.network.session import Session
from millstream.client.errors import BrokerUnavailable, kafka_error
from millstream.client.request import Request as AnyRequest
from millstream.coordination.cluster_watcher import CHANGES, ClusterWatcher, Stale
from millstream.errors import NotController
from millstream.replication_errors import BrokerIdNotRegistered, StaleBrokerEpoch
from millstream.wire import messages
from millstream.wire.api import ApiKey
from millstream.wire.frames import encode_request_header, read_response_header
from millstream.wire.primitives import INT32

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS: Final = 30_000
"""Of requests that do not say how long they may take: Kafka's request.timeout.ms."""
SHORTEST_TIMEOUT_MS: Final = 10_000
"""An election is waited for, however short the time that a client gives for the work itself: librdkafka gives none by default."""
_CATCH_UP_MS: Final = 5_000
_RETRY_S: Final = 0.05
_NOT_KNOWN_YET: Final = (BrokerIdNotRegistered.code, StaleBrokerEpoch.code)
"""A controller that has not seen yet that this broker is registered."""


class CarryOut(Protocol):
    """`Router.carry_out`."""

    def __call__(self, connection: Connection, client: Session, frame: bytes) -> Awaitable[CarriedOut]:
        """Handle a request in this broker as the controller."""


class RequestForwarding:
    """Passes requests on."""

    def __init__(
        self, watcher: ClusterWatcher, peers: Peers, carry_out: CarryOut, *, node_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        """`peers` has connections that nobody else waits for: some of these requests take long."""
        self._watcher = watcher
        self._carry_out = carry_out
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._channel = ControllerChannel(
            peers, node_id=node_id, view=lambda: watcher.view, until=watcher.until, local=self._carry_out_here
        )

    def forward(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """Have a client's request carried out by the controller; the answer as it is sent."""
        # Decoded here too: what makes no sense ends the connection of the client, not that of the brokers.
        timeout_ms = getattr(request.decode(), "timeout_ms", DEFAULT_TIMEOUT_MS)
        return self._forward(request, bytes(request.frame), timeout_ms=timeout_ms)

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
        envelope = Envelope(
            frame, client=request.session, connection=request.connection, broker_id=self._node_id, broker_epoch=self._broker_epoch
        )
        try:
            answer = await self._until_known(envelope, timeout_s=max(timeout_ms, SHORTEST_TIMEOUT_MS) / 1000)
        except (BrokerUnavailable, NotController) as error:
            logger.warning("a request for the controller was not passed on: %s", error)
            return (await self._carry_out(envelope.connection, envelope.client, frame)).data
        if answer.error_code:
            raise kafka_error(answer.error_code, "the controller refused a request that was passed on to it")
        if self._watcher.view.controller_id != self._node_id:
            for stale in (CHANGES, *touched):
                await self._watcher.catch_up(stale, timeout_ms=_CATCH_UP_MS)
        return answer.data

    async def _until_known(self, envelope: Envelope, *, timeout_s: float) -> EnvelopeAnswer:
        """The controller's answer, once it has seen that this broker is registered."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            left_s = deadline - asyncio.get_running_loop().time()
            answer = await self._channel.ask(envelope, timeout_s=left_s)
            if answer.error_code not in _NOT_KNOWN_YET or left_s < _RETRY_S:
                return answer
            await asyncio.sleep(_RETRY_S)

    async def _carry_out_here(self, request: AnyRequest[Any]) -> EnvelopeAnswer:
        """This broker is the controller."""
        assert isinstance(request, Envelope)
        carried_out = await self._carry_out(request.connection, request.client, request.frame)
        if carried_out.is_refused:
            raise NotController(f"broker {self._node_id} is not the controller")
        return EnvelopeAnswer(0, carried_out.data)
