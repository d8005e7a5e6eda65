"""The other brokers of the cluster, as this one reaches them: by node id, at the addresses of the view (where clients connect, if
it names no other for brokers).

`Peer` is one broker: a connection that is opened when it is needed and opened anew after it broke, with a growing pause between attempts
that fail. A broker that came back, on another port or in another life, is tried at once. A broker that cannot be reached is logged once,
and once more when it is back. `Peers` has one connection to each, for requests that are answered soon; whoever waits long for answers
(fetchers, forwarded requests of clients) has a `Peer` or `Peers` of its own, because the answers of one connection come in order.

A request is sent once: if the connection ends before its answer, whether it was carried out is not known, and asking again is up to the
caller.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from millstream.address import Address
from millstream.client.codecs.request import Request
from millstream.client.errors import AnswerTimedOut, BrokerUnavailable
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import MillstreamError

if TYPE_CHECKING:
    from millstream.client.async_connection import AsyncConnection

logger = logging.getLogger(__name__)

T = TypeVar("T")

CONNECT_TIMEOUT_S: Final = 10.0
"""Kafka's socket.connection.setup.timeout.ms."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0

ViewOf = Callable[[], ClusterView]


class Peer:
    """One other broker."""

    def __init__(self, node_id: int, *, view: ViewOf, client_id: str, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self.node_id = node_id
        self._view = view
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._loop = asyncio.get_running_loop()
        self._registered: tuple[Address, int] | None = None
        """Address and broker epoch of the last attempt."""
        self._connection: AsyncConnection | None = None
        self._opening: asyncio.Task[AsyncConnection] | None = None
        self._pause_s = 0.0
        self._not_before = 0.0
        self._is_reported = False
        self._is_closed = False

    async def connected(self) -> "AsyncConnection":
        """The connection, opened if it has to be; BrokerUnavailable if that fails, or the broker is not registered."""
        while True:
            connection = self.present()
            if connection is not None:
                return connection
            opening = self._opening
            if opening is None:
                opening = self._opening = self._loop.create_task(self._open())
                opening.add_done_callback(self._opened)
            # Several may wait for it: one that gives up leaves it to the others. It is cancelled when the address changes.
            await asyncio.wait((opening,))
            if not opening.cancelled():
                return opening.result()

    def present(self) -> "AsyncConnection | None":
        """The connection, if it is open; BrokerUnavailable if the broker is not registered."""
        address = self._locate()
        connection = self._connection
        return connection if connection is not None and not connection.is_closed and connection.address == address else None

    def close(self) -> None:
        """End the connection; whatever waits for it gets BrokerUnavailable, now and later."""
        self._is_closed = True
        self.disconnect()

    def disconnect(self) -> None:
        """End the connection that there is; the next one is opened when it is needed."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _locate(self) -> Address:
        """Where the broker is registered; what was learned of another address or a former life no longer counts."""
        registered = self._look_up()
        if registered != self._registered:
            if self._registered is not None and self._registered[0] != registered[0]:
                self.disconnect()
                self._is_reported = False
            self._registered = registered
            self._pause_s = self._not_before = 0.0
        return registered[0]

    def _look_up(self) -> tuple[Address, int]:
        if self._is_closed:
            raise BrokerUnavailable(f"this broker is stopping, and asks broker {self.node_id} nothing more")
        broker = self._view().brokers.get(self.node_id)
        if broker is None:
            raise BrokerUnavailable(f"broker {self.node_id} is not registered")
        return broker.inter_broker or Address(broker.host, broker.port), broker.epoch

    async def _open(self) -> "AsyncConnection":
        await asyncio.sleep(self._not_before - self._loop.time())
        address, _ = self._look_up()
        try:
            from millstream.client.async_connection import AsyncConnection  # a broker without others starts sooner without it

            opened = await AsyncConnection.open(address, client_id=self._client_id, timeout_s=self._connect_timeout_s)
        except MillstreamError as error:
            self._failed(address, error)
            raise
        except (OSError, ImportError) as error:  # no file descriptor is free, not even to load the module
            unavailable = BrokerUnavailable(f"no connection to {address} can be opened: {error}")
            self._failed(address, unavailable)
            raise unavailable from error
        self._pause_s = self._not_before = 0.0
        if self._is_reported:
            self._is_reported = False
            logger.info("broker %d is reached again at %s", self.node_id, address)
        self._connection = opened
        return opened

    def _failed(self, address: Address, error: MillstreamError) -> None:
        self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._not_before = self._loop.time() + self._pause_s
        if not self._is_reported:
            self._is_reported = True
            logger.warning("broker %d cannot be reached at %s, which it advertises; it is tried again: %s", self.node_id, address, error)

    def _opened(self, task: "asyncio.Task[AsyncConnection]") -> None:
        if self._opening is task:
            self._opening = None
        if not task.cancelled():
            task.exception()  # seen: everyone who waited may have given up


class Peers:
    """One connection to each other broker."""

    def __init__(self, *, view: ViewOf, client_id: str, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._view = view
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._by_id: dict[int, Peer] = {}
        self._is_closed = False

    async def ask(self, node_id: int, request: Request[T], *, timeout_s: float) -> T:
        """The broker's answer; BrokerUnavailable if it is not there, does not answer in time, or the connection ends."""
        peer = self._by_id.get(node_id)
        if peer is None:
            peer = self._by_id[node_id] = self.peer(node_id)
            if self._is_closed:
                peer.close()
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                connection = await peer.connected()
        except TimeoutError:
            raise AnswerTimedOut(f"broker {node_id} was not reached within {timeout_s:g} s") from None
        left_s = deadline - asyncio.get_running_loop().time()
        # Shielded: one that is cancelled must not end the connection that others use; its answer is dropped when it comes.
        return await asyncio.shield(connection.send(request, timeout_s=left_s))

    def peer(self, node_id: int) -> Peer:
        """A connection of one's own to a broker, for whoever waits long for answers. Closing it is up to the caller."""
        return Peer(node_id, view=self._view, client_id=self._client_id, connect_timeout_s=self._connect_timeout_s)

    def close(self) -> None:
        """End all connections."""
        self._is_closed = True
        for peer in self._by_id.values():
            peer.close()
