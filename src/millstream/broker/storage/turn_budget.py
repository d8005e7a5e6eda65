"""So much work of one kind in a turn of the event loop, whoever asks for it: what is left to do waits for a later turn.

    while not done:
        done = work(budget.units)        budget.spend(...)
        await budget.wait()

Those who wait go on in their order, in each turn as many as it has units for: many who have a lot to do take no more of a turn than one.

Searches and batches to append have a budget each, and places of their own for what is decompressed (`unfolding`): a consumer that looks for
a time in a long log does not make a producer wait, nor the other way round.
"""

import asyncio
from collections import deque


class TurnBudget:
    """Units of work that may be done in this turn of the loop."""

    def __init__(self, units_per_turn: int) -> None:
        self._units_per_turn = units_per_turn
        self._is_next_turn_due = False
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self.units = units_per_turn
        """What is left for this turn."""

    def spend(self, units: int) -> None:
        """So much was done; the next turn has all of it again."""
        self.units -= units
        self._await_turn()

    async def wait(self, units: int | None = None) -> None:
        """Wait for a turn in which there may be so many units for us; all of them, if no number is given."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((future, self._units_per_turn if units is None else units))
        self._await_turn()
        await future

    def _await_turn(self) -> None:
        if not self._is_next_turn_due:
            self._is_next_turn_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_next_turn_due = False
        self.units = left = self._units_per_turn
        while self._waiting and (self._waiting[0][1] <= left or left == self._units_per_turn):
            future, units = self._waiting.popleft()
            if not future.done():  # a task that was cancelled waits no longer
                future.set_result(None)
                left -= units
        if self._waiting:
            self._await_turn()
