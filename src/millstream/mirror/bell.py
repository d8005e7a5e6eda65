"""Wakes a loop that waits for work, or for a time."""

import asyncio


class Bell:
    """Rung by whoever has work; a ring without a waiter is heard by the next wait."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """There is something to do."""
        self._rung.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it rings, at most so long; whether it rang."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True
