import asyncio

import pytest

from millstream.mirror import repeating
from millstream.mirror.repeating import repeat
from tests.waiting import eventually


async def test_work_is_repeated_and_done_once_more_at_the_end() -> None:
    done: list[str] = []

    async def act() -> None:
        done.append("again")

    async def last() -> None:
        done.append("last")

    task = asyncio.ensure_future(repeat(act, every_s=0, last=last))
    await eventually(lambda: len(done) > 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (set(done[:-1]), done[-1]) == ({"again"}, "last")


async def test_the_last_time_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "LAST_S", 0.01)
    begun = asyncio.Event()

    async def act() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(repeat(act, every_s=0, last=act))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
