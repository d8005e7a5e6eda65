import asyncio

from millstream.broker.storage.turn_budget import TurnBudget


async def test_what_is_spent_comes_back_with_the_next_turn() -> None:
    budget = TurnBudget(10)
    budget.spend(4)
    budget.spend(8)
    assert budget.units == -2
    await asyncio.sleep(0)
    assert budget.units == 10


async def test_those_who_wait_go_on_one_per_turn_and_in_turns() -> None:
    budget, order, turn = TurnBudget(10), list[tuple[int, str]](), 0

    async def work(name: str) -> None:
        for _ in range(3):
            await budget.wait()
            order.append((turn, name))
            budget.spend(10)

    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(work(name))
        while len(order) < 9:
            await asyncio.sleep(0)
            turn += 1
    assert [name for _, name in order] == list("abcabcabc")
    assert len({turn for turn, _ in order}) == 9


async def test_a_task_that_is_cancelled_holds_no_other_up() -> None:
    budget = TurnBudget(10)
    first, second = asyncio.ensure_future(budget.wait()), asyncio.ensure_future(budget.wait())
    first.cancel()
    async with asyncio.timeout(20):
        await second
    assert first.cancelled()


async def test_those_who_want_little_share_a_turn() -> None:
    budget = TurnBudget(10)
    waits = [asyncio.ensure_future(budget.wait(units)) for units in (4, 6, 1, 20, 1)]
    went = []
    while not all(wait.done() for wait in waits):
        await asyncio.sleep(0)
        went.append(sum(wait.done() for wait in waits))
    assert sorted({*went} - {0}) == [2, 3, 4, 5]
