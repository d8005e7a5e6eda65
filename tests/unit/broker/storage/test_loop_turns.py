import asyncio
from collections.abc import Callable

import pytest

from millstream.broker.storage.loop_turns import LoopTurns


def counting(name: str, count: int, done: list[str]) -> Callable[[], bool]:
    """Work of so many steps."""
    left = [count]

    def step() -> bool:
        done.append(name)
        left[0] -= 1
        return left[0] == 0

    return step


async def test_one_step_is_done_per_turn_and_those_who_have_more_to_do_take_turns() -> None:
    turns, done = LoopTurns(), list[str]()
    turns.share(counting("a", 3, done))
    turns.share(counting("b", 2, done))
    assert done == []
    for expected in ("a", "ab", "aba", "abab", "ababa", "ababa"):
        await asyncio.sleep(0)
        assert "".join(done) == expected
    assert len(turns) == 0


async def test_a_step_that_fails_is_the_last_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    turns, done = LoopTurns(), list[str]()

    def fail() -> bool:
        raise ValueError("no further")

    turns.share(fail)
    turns.share(counting("b", 1, done))
    for _ in range(3):
        await asyncio.sleep(0)
    assert (done, len(turns)) == (["b"], 0)
    assert "no further" in caplog.text
