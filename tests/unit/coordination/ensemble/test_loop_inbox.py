"""Calls from other threads."""

import asyncio
import threading
from itertools import pairwise

from millstream.coordination.ensemble.loop_inbox import MOST_PER_TURN, LoopInbox


async def test_calls_of_a_thread_are_made_in_order_and_not_all_in_one_turn() -> None:
    inbox, made = LoopInbox(), list[int]()

    def put_all() -> None:
        for number in range(5 * MOST_PER_TURN):
            inbox.put(made.append, number)

    thread = threading.Thread(target=put_all)
    thread.start()
    thread.join()
    seen = [0]
    while len(made) < 5 * MOST_PER_TURN:
        await asyncio.sleep(0)
        seen.append(len(made))
    assert made == list(range(5 * MOST_PER_TURN))
    assert max(after - before for before, after in pairwise(seen)) <= MOST_PER_TURN


async def test_a_call_that_fails_does_not_take_the_next_with_it() -> None:
    inbox, made, failed = LoopInbox(), list[int](), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failed.append(context["exception"]))
    inbox.put(list[int]().remove, 1)
    inbox.put(made.append, 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert made == [1]
    assert [type(error) for error in failed] == [ValueError]


async def test_a_call_from_inside_a_call_is_made_too() -> None:
    inbox, made = LoopInbox(), list[int]()
    inbox.put(lambda: inbox.put(made.append, 1))
    for _ in range(5):
        await asyncio.sleep(0)
    assert made == [1]


def test_a_loop_that_is_closed_is_no_error() -> None:
    async def make() -> LoopInbox:
        return LoopInbox()

    asyncio.run(make()).put(lambda: None)
