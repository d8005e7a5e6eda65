"""Calls that other threads hand to an event loop: in their order, many with one wake-up, and never so many in a turn that the loop stands.

`call_soon_threadsafe` writes to a socket for each call; ten thousand answers of ZooKeeper would wake the loop ten thousand times.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

MOST_PER_TURN: Final = 64


class LoopInbox:
    """Made on the loop that is to make the calls."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._is_awake = False

    def put(self, callback: Callable[..., None], *arguments: object) -> None:
        """Have the loop call this soon; from any thread. A loop that is closed calls nothing any more."""
        self._calls.append((callback, arguments))
        if not self._is_awake:
            # Two threads may both come here: one wake-up too many does no harm.
            self._is_awake = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._make_calls)

    def _make_calls(self) -> None:
        # First, so that a call that is put from here on wakes the loop again.
        self._is_awake = False
        for _ in range(min(len(self._calls), MOST_PER_TURN)):
            callback, arguments = self._calls.popleft()
            try:
                callback(*arguments)
            except Exception as error:  # noqa: BLE001 -- the calls after it are others'; the loop reports it as it reports what fails in it
                self._loop.call_exception_handler({"message": "a call from another thread failed", "exception": error})
        if self._calls and not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._make_calls)
