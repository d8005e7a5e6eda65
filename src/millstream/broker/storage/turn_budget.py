"""So much work of one kind in a turn of the event loop, whoever asks for it: what is left to do waits for a later turn.

    while not done:
        done = work(budget.units)        budget.spend(...)
        await budget.wait()

One of those who wait goes on per turn, in their order: many who have a lot to do take no more of a turn than one.
"""

import asyncio
from collections import deque


class TurnBudget:
    """Units of work that may be done in this turn of the loop."""

    def __init__(self, units_per_turn: int) -> None:
        self._units_per_turn = units_per_turn
        self._is_next_turn_due = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.units = units_per_turn
        """What is left for this turn."""

    def spend(self, units: int) -> None:
        """So much was done; the next turn has all of it again."""
        self.units -= units
        self._await_turn()

    async def wait(self) -> None:
        """Wait for a turn that is ours."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._await_turn()
        await future

    def _await_turn(self) -> None:
        if not self._is_next_turn_due:
            self._is_next_turn_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_next_turn_due = False
        self.units = self._units_per_turn
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # a task that was cancelled waits no longer
                future.set_result(None)
                break
        if self._waiting:
            self._await_turn()
