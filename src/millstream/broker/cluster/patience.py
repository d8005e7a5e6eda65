"""Steps of a start that need ZooKeeper: tried again while its connection is interrupted, as long as `zookeeper.connection.timeout.ms` says.

A step may have been carried out although its answer was lost, so each has to bear being repeated.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from millstream.errors import StartupError
from millstream.zookeeper.errors import ConnectionLost, SessionExpired, TreeOffline

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.2

T = TypeVar("T")


async def patiently(step: Callable[[], Awaitable[T]], *, timeout_ms: int) -> T:
    """What comes of the step; StartupError if ZooKeeper is away for longer than that."""
    loop = asyncio.get_running_loop()
    deadline = None
    while True:
        try:
            return await step()
        except TreeOffline:  # the embedded one, on a disk that failed
            raise
        except (ConnectionLost, SessionExpired) as error:
            if deadline is None:
                deadline = loop.time() + timeout_ms / 1000
                logger.info("the start waits for ZooKeeper to come back: %s", error)
            if loop.time() > deadline:
                raise StartupError(
                    f"ZooKeeper was away for {timeout_ms} ms while the broker started ({error}): "
                    "is it up? zookeeper.connection.timeout.ms says how long a start waits"
                ) from error
        await asyncio.sleep(RETRY_S)
