"""Waiting, on the loop, for what the loop or a thread of the broker is about to do."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, deadline_s: float = 20.0) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 -- there is no event for it: what is waited for are the broker's own callbacks
            await asyncio.sleep(0)
