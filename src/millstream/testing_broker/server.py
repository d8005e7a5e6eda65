"""The broker of a test: one like any other, with a clock that jumps and requests that can be made to fail."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from millstream.broker.network.api import Handler
from millstream.broker.network.router import Router
from millstream.broker.server import BrokerServer
from millstream.broker.server_options import ServerOptions
from millstream.testing_broker.faults import FailingRouter, Faults
from millstream.testing_broker.jumping_clock import JumpingClock

FLUSH_S: Final = 30.0
PAUSE_S: Final = 0.002


class BrokerUnderTest(BrokerServer):
    """`async with BrokerUnderTest(options, JumpingClock())`; its methods are for the event loop on which it runs."""

    def __init__(self, options: ServerOptions, clock: JumpingClock) -> None:
        super().__init__(options, clock=clock)
        self._jumping_clock = clock
        self._faults = Faults()

    def fail_next(self, api: str, error: str, times: int) -> None:
        """Answer the next requests for an API with an error."""
        self._faults.add(api, error, times)
        self._listener.renew_sessions()

    @property
    def failed_requests(self) -> Mapping[str, int]:
        """How many requests failed so, by API."""
        return self._faults.answered

    async def jump(self, distance: timedelta) -> None:
        """Set the clock forward, and apply retention as of then."""
        self._jumping_clock.jump(distance)
        storage = self._storage
        await storage.housekeeping.apply_retention()
        # Segments go only when what follows them is on the disk, which otherwise takes a round or two.
        async with asyncio.timeout(FLUSH_S):
            while waiting := [partition for partition in storage.replicas if partition.log.local.is_flush_wanted]:
                for partition in waiting:
                    storage.flusher.request(partition)
                await asyncio.sleep(PAUSE_S)
        await storage.housekeeping.apply_retention()

    def _make_router(self, handlers: Iterable[Handler]) -> Router:
        return FailingRouter(handlers, spawn=self._tasks.spawn, forward=self._forwarding.forward, faults=self._faults)
