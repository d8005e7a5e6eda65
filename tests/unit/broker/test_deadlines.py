import asyncio
from functools import partial

import pytest

from millstream.broker.deadlines import KEPT_CANCELLED, Deadlines


async def test_deadlines_ring_in_their_order_whatever_the_order_in_which_they_were_added(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines, rung = Deadlines(), asyncio.Queue[int]()
    loop = asyncio.get_running_loop()
    now = loop.time()
    with monkeypatch.context() as standing:
        standing.setattr(loop, "time", lambda: now)
        for number in (3, 1, 2):
            deadlines.add(number / 1000, partial(rung.put_nowait, number))
    async with asyncio.timeout(10):
        assert [await rung.get() for _ in range(3)] == [1, 2, 3]
    assert not len(deadlines)


async def test_deadline_that_was_cancelled_does_not_ring() -> None:
    deadlines, rung = Deadlines(), asyncio.Queue[str]()
    early = deadlines.add(0.001, partial(rung.put_nowait, "early"))
    deadlines.add(0.01, partial(rung.put_nowait, "late"))
    early.cancel()
    early.cancel()
    async with asyncio.timeout(10):
        assert await rung.get() == "late"
    assert rung.empty()
    assert deadlines.cancelled == 0


async def test_deadline_can_be_cancelled_by_another_one_that_rings_with_it() -> None:
    deadlines, rung = Deadlines(), list[str]()

    def ring(name: str) -> None:
        rung.append(name)
        first.cancel()
        second.cancel()

    first = deadlines.add(0, partial(ring, "first"))
    second = deadlines.add(0, partial(ring, "second"))
    is_over = asyncio.Event()
    deadlines.add(0.005, is_over.set)
    await asyncio.wait_for(is_over.wait(), 10)
    assert rung == ["first"]


async def test_what_was_cancelled_is_not_kept_until_its_time() -> None:
    deadlines = Deadlines()
    kept = [deadlines.add(1000, lambda: None) for _ in range(5)]
    for _ in range(10 * KEPT_CANCELLED):
        deadlines.add(1000, lambda: None).cancel()
    assert len(deadlines) <= 2 * (KEPT_CANCELLED + len(kept))
    for deadline in kept:
        deadline.cancel()


async def test_earlier_deadline_rings_though_a_later_one_was_there_before() -> None:
    deadlines, is_over = Deadlines(), asyncio.Event()
    late = deadlines.add(1000, is_over.clear)
    deadlines.add(0.001, is_over.set)
    await asyncio.wait_for(is_over.wait(), 10)
    late.cancel()
