"""What tools ask about transactions, when that is much."""

import asyncio
import threading
from pathlib import Path

import pytest

from millstream.broker.handlers.transactions.transaction_admin import TransactionAdminFamily
from millstream.broker.storage import loop_turns
from millstream.groups.consumer.topic_patterns import TopicPattern
from millstream.wire.api import ApiKey
from tests.manual_clock import ManualClock
from tests.unit.broker.group_client import create, group_server
from tests.unit.broker.handlers.desk import Desk
from tests.unit.broker.transaction_client import TRANSACTION_OPTIONS, Producer


async def test_others_have_a_turn_after_each_transaction_that_is_described(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred of them with a hundred partitions each took the loop for as long as all partitions together."""
    monkeypatch.setattr(loop_turns, "TURN_S", -1.0)
    async with group_server(tmp_path, options=TRANSACTION_OPTIONS) as server:
        await create(server, partitions=50)
        names = [f"t{number}" for number in range(20)]
        for name in names:
            producer = Producer(server, name)
            assert await producer.find() == await producer.init() == 0
            await producer.add({"orders": list(range(50))})
        family = TransactionAdminFamily(server._transactions, ManualClock())
        asking = asyncio.ensure_future(desk.ask(family.describe_transactions, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=names))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        described = asking.result().transaction_states
    assert [one.transactional_id for one in described] == names
    assert {len(one.topics[0].partitions) for one in described} == {50}
    assert turns > len(names)


async def test_ids_that_are_longer_than_any_topic_are_matched_beside_the_loop(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty ids of 32 000 characters and a hostile pattern kept all other clients waiting for a second."""
    matched: dict[str, bool] = {}
    matches = TopicPattern.matches

    def noted(pattern: TopicPattern, text: str) -> bool:
        matched[text] = threading.current_thread() is threading.main_thread()
        return matches(pattern, text)

    monkeypatch.setattr(TopicPattern, "matches", noted)
    names = ["a" * 249, "a" * 250, "b" * 250]
    async with group_server(tmp_path, options=TRANSACTION_OPTIONS) as server:
        for name in names:
            producer = Producer(server, name)
            assert await producer.find() == await producer.init() == 0
        family = TransactionAdminFamily(server._transactions, ManualClock())
        fields = {"duration_filter": -1, "transactional_id_pattern": "a*"}
        answer = await desk.ask(family.list_transactions, ApiKey.LIST_TRANSACTIONS, 2, **fields)
    assert {one.transactional_id for one in answer.transaction_states} == set(names[:2])
    assert matched == {names[0]: True, names[1]: False, names[2]: False}
