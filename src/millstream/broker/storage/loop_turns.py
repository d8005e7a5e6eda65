"""Long work in steps, one step per turn of the event loop, whoever it is for: others are served in between.

    turns.share(step)       `step` does a few milliseconds of work, and returns whether it was the last

Those who have more to do take turns, in the order in which they came: many of them take no more of a turn than one. There are no tasks, and
who gives up returns True from the next step. `turn_budget` is for work that waits in tasks, and of which most is done at once.

    async for some in in_turns(items)       for what the broker does on its own, in a task
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, TypeVar

TURN_S: Final = 0.004
"""How long items are handed out before others have a turn."""
AT_ONCE: Final = 100
"""How many items are handed out together."""

Step = Callable[[], bool]
ItemT = TypeVar("ItemT")


class TaskTurns:
    """For one task: lets others have a turn when it has had the loop for a while."""

    __slots__ = ("_loop", "_turn_ends")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._turn_ends = self._loop.time() + TURN_S

    async def share(self) -> None:
        """To be called every now and then."""
        if self._loop.time() > self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = self._loop.time() + TURN_S


async def in_turns(items: Sequence[ItemT], turns: TaskTurns | None = None) -> AsyncIterator[Sequence[ItemT]]:
    """The items, some at a time, and others have a turn whenever they took a while; `turns`: of a task that goes through several lists."""
    turns = turns or TaskTurns()
    for start in range(0, len(items), AT_ONCE):
        await turns.share()
        yield items[start : start + AT_ONCE]


class LoopTurns:
    """The work under way."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()

    def __len__(self) -> int:
        return len(self._steps)

    def share(self, step: Step) -> None:
        """Call `step` in later turns of the loop until it returns True. It must not raise."""
        self._steps.append(step)
        if len(self._steps) == 1:
            asyncio.get_running_loop().call_soon(self._take_step)

    def _take_step(self) -> None:
        step = self._steps[0]
        try:
            is_last = step()
        except BaseException:
            is_last = True
            raise
        finally:
            self._steps.popleft()
            if not is_last:
                self._steps.append(step)
            if self._steps:
                asyncio.get_running_loop().call_soon(self._take_step)
