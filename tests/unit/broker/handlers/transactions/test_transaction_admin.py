"""What tools ask about transactions, when that is much."""

import asyncio
from pathlib import Path

import pytest

from millstream.broker.handlers.transactions.transaction_admin import TransactionAdminFamily
from millstream.broker.storage import loop_turns
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
