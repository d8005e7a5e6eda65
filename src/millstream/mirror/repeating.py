"""Work that is repeated while a mirror runs, and done once more when it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

LAST_S: Final = 2.0
"""How long the last time may take."""

Act = Callable[[], Awaitable[None]]


async def repeat(act: Act, *, every_s: float, last: Act) -> None:
    """Act again and again until this is cancelled, and then `last`."""
    try:
        while True:
            await asyncio.sleep(every_s)
            await act()
    except asyncio.CancelledError:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await last()
        raise
