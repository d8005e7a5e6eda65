"""Asking the controller, whichever broker that is now.

    answer = await channel.ask(MessageRequest(ApiKey.ALTER_PARTITION, {...}), timeout_s=30)

When this broker is the controller itself, `local` carries the request out without a socket: it gets the same request and returns what its
`decode` would have, or raises NotController. Otherwise it goes to the broker that the view names. While there is no controller, or it
cannot be reached, or it says that it is none (NotController; error code 41 of the whole answer), or another one is elected before it has
answered, the channel waits until the view names another one, or for a growing pause, and asks again until the time is up. So a request may
be carried out twice, as by any client that tries again. Errors that are not about who the controller is are the caller's: they are in the
answer, or raised.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from millstream.broker.cluster.peers import Peers, ViewOf
from millstream.client.codecs.request import Request
from millstream.client.errors import AnswerTimedOut, BrokerUnavailable
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import MillstreamError, NotController

T = TypeVar("T")

Local = Callable[[Request[Any]], Awaitable[Any]]
"""Carries a request out in this broker."""

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_NO_CONTROLLER: Final = -1


class UntilView(Protocol):
    """Waits until the view satisfies a predicate: `ClusterWatcher.until`."""

    async def __call__(self, predicate: Callable[[ClusterView], bool], *, timeout_ms: int) -> bool:
        """False when the time ran out first."""


class ControllerChannel:
    """The way to the controller, for one kind of request: what may take long does not hold up another channel's."""

    def __init__(self, peers: Peers, *, node_id: int, view: ViewOf, until: UntilView, local: Local) -> None:
        self._peers = peers
        self._node_id = node_id
        self._view = view
        self._until = until
        self._local = local

    async def ask(self, request: Request[T], *, timeout_s: float) -> T:
        """The controller's answer. NotController or BrokerUnavailable if none was found in time; AnswerTimedOut if it did not answer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pause_s = _FIRST_PAUSE_S
        error: MillstreamError = NotController(f"there was no controller for {timeout_s:g} s")
        while (left_s := deadline - loop.time()) > 0:
            controller = self._view().controller_id
            if controller == _NO_CONTROLLER:
                await self._wait_for_another(controller, left_s)
                continue
            try:
                answer = await self._attempt(controller, request, timeout_s=left_s)
            except (BrokerUnavailable, NotController) as unavailable:
                error = unavailable
            else:
                if getattr(answer, "error_code", 0) != NotController.code:
                    return answer
                error = NotController(f"broker {controller} answered that it is not the controller")
            await self._wait_for_another(controller, min(pause_s, deadline - loop.time()))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise error

    async def _attempt(self, controller: int, request: Request[T], *, timeout_s: float) -> T:
        if controller != self._node_id:
            return await self._ask_peer(controller, request, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                answer: T = await self._local(request)
                return answer
        except TimeoutError:
            raise AnswerTimedOut(f"the controller, this broker, did not carry the request out within {timeout_s:g} s") from None

    async def _ask_peer(self, controller: int, request: Request[T], *, timeout_s: float) -> T:
        """Its answer, unless another broker is elected before it comes: one that was paused or cut off may never answer."""
        asking = asyncio.ensure_future(self._peers.ask(controller, request, timeout_s=timeout_s))
        replacing = asyncio.ensure_future(self._wait_for_another(controller, timeout_s))
        try:
            await asyncio.wait({asking, replacing}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done() or self._view().controller_id == controller:
                return await asking
            raise BrokerUnavailable(f"broker {controller} did not answer before it ceased to be the controller")
        finally:
            asking.cancel()
            replacing.cancel()

    async def _wait_for_another(self, controller: int, timeout_s: float) -> None:
        if timeout_s > 0:
            await self._until(lambda view: view.controller_id != controller, timeout_ms=max(1, int(timeout_s * 1000)))
