import asyncio
from typing import cast

import pytest

from millstream.address import Address
from millstream.client.async_connection import AsyncConnection
from millstream.client.codecs.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from millstream.client.errors import BrokerUnavailable
from millstream.mirror.clusters.side import Side
from millstream.topic_partition import TopicPartition


class Silent:
    """Accepts no connection until it is told to; counts who tried."""

    def __init__(self) -> None:
        self.tried = 0
        self.gave_up = asyncio.Event()

    async def open(self, address: Address) -> AsyncConnection:
        self.tried += 1
        await self.gave_up.wait()
        raise BrokerUnavailable(f"no broker answers at {address}")


async def test_a_broker_that_does_not_answer_is_waited_for_once_however_many_ask() -> None:
    broker = Silent()
    side = Side("live:9092", open_connection=broker.open)
    asking = [asyncio.ensure_future(side.refresh()) for _ in range(20)]
    await asyncio.sleep(0.05)  # the time that it takes to give up, and for which that is remembered
    broker.gave_up.set()
    assert all(isinstance(failure, BrokerUnavailable) for failure in await asyncio.gather(*asking, return_exceptions=True))
    with pytest.raises(BrokerUnavailable):
        await side.refresh()
    assert broker.tried == 1


async def test_who_stops_waiting_takes_the_connection_from_none_of_the_others() -> None:
    opened = cast("AsyncConnection", object())
    may_open = asyncio.Event()

    async def open_connection(_: Address) -> AsyncConnection:
        await may_open.wait()
        return opened

    side = Side("live:9092", open_connection=open_connection)
    first, second = (asyncio.ensure_future(side._connection(Address("live", 9092), "")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    may_open.set()
    assert await second is opened


async def test_a_leader_that_hangs_does_not_hold_up_what_others_say() -> None:
    asked: list[Address] = []
    both_asked = asyncio.Event()

    async def open_connection(address: Address) -> AsyncConnection:
        asked.append(address)
        if len(asked) == 2:
            both_asked.set()
        await both_asked.wait()  # each leader waits until the other one is asked, too
        raise BrokerUnavailable(f"no broker answers at {address}")

    side = Side("one:1", open_connection=open_connection)
    partitions = {number: PartitionMetadata(number, number, 0, (number,), (number,)) for number in (1, 2)}
    side.metadata = ClusterMetadata(
        brokers={1: Address("one", 1), 2: Address("two", 2)}, topics={"t": TopicMetadata("t", None, 0, partitions)}
    )
    assert await asyncio.wait_for(side.ends([TopicPartition("t", 1), TopicPartition("t", 2)]), 30) == {}
