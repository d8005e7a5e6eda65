"""Many partitions at once are read in several turns of the loop, and nothing that moves in between is missed."""

import asyncio

import pytest

from millstream.broker.handlers.fetch import fetch, fetch_attempt
from millstream.cluster.partition import Partition
from millstream.wire.api import ApiKey
from tests.batches import decode_records
from tests.unit.broker.handlers.session_reader import (
    CONSUMER,
    COUNT,
    FOLLOWER,
    LONG_MS,
    CountingFamily,
    Reader,
    commit,
    indexes,
    reader_at_the_end,
    watchers,
)
from tests.unit.cluster.hosting import append
from tests.waiting import eventually


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few partitions are many."""
    for module in (fetch, fetch_attempt):
        monkeypatch.setattr(module, "PARTITIONS_PER_TURN", 6)


@pytest.mark.usefixtures("turns")
@pytest.mark.parametrize("replica", [CONSUMER, FOLLOWER])
async def test_others_have_their_turn_while_many_partitions_are_read(
    family: CountingFamily, partitions: list[Partition], replica: tuple[int, int]
) -> None:
    append(partitions[19], b"a")
    commit(partitions[19], 1)
    reader = Reader(family, replica)
    assert await reader.ask(dict.fromkeys(range(COUNT), 0), max_wait_ms=LONG_MS) is None
    looks = [family.looks]
    while reader.desk.pending[0].chunks is None:
        await asyncio.sleep(0)
        looks.append(family.looks)
    assert looks[:5] == [0, 6, 12, 18, 20]
    answer = await reader.desk.later(ApiKey.FETCH, 17)
    assert indexes(answer) == list(range(COUNT))
    assert decode_records(answer.responses[0].partitions[19].records)


@pytest.mark.usefixtures("turns")
async def test_two_who_read_many_partitions_share_the_turns(family: CountingFamily, partitions: list[Partition]) -> None:
    readers = [Reader(family, CONSUMER), Reader(family, FOLLOWER)]
    for reader in readers:
        assert await reader.ask(dict.fromkeys(range(len(partitions)), 0), max_wait_ms=0) is None
    for turn in range(1, 5):
        await asyncio.sleep(0)
        assert family.looks == 6 * turn
    for reader in readers:
        assert len(indexes(await reader.desk.later(ApiKey.FETCH, 17))) == COUNT


@pytest.mark.usefixtures("turns")
@pytest.mark.parametrize("replica", [CONSUMER, FOLLOWER])
async def test_what_moves_while_the_others_are_read_comes_with_this_answer_or_the_next(
    family: CountingFamily, partitions: list[Partition], replica: tuple[int, int]
) -> None:
    reader = Reader(family, replica)
    assert await reader.ask(dict.fromkeys(range(COUNT), 0), max_wait_ms=0) is None
    await asyncio.sleep(0)
    append(partitions[0], b"a")
    commit(partitions[0], 1)
    answer = await reader.desk.later(ApiKey.FETCH, 17)
    assert answer.responses[0].partitions[0].high_watermark == 0, "it was read before"
    reader.session_id = answer.session_id
    assert await reader.mentioned() == [0]
    family.looks = 0
    await reader.ask({0: 1})
    assert await reader.mentioned() == []
    assert family.looks == 1


@pytest.mark.usefixtures("turns")
async def test_fetch_that_waits_looks_again_only_at_what_moved(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = Reader(family, CONSUMER)
    reader.epoch = -1
    assert await reader.ask(dict.fromkeys(range(COUNT), 0), max_wait_ms=LONG_MS, min_bytes=150) is None
    for _ in range(6):
        await asyncio.sleep(0)
    assert (family.looks, watchers(partitions)) == (COUNT, COUNT)
    family.looks = 0
    for value in (b"a", b"b" * 100):
        append(partitions[5], value)
        commit(partitions[5], partitions[5].log.log_end_offset)
        await asyncio.sleep(0)
    answer = await reader.desk.later(ApiKey.FETCH, 17)
    assert len(decode_records(answer.responses[0].partitions[5].records)) == 2
    assert watchers(partitions) == 0
    assert family.looks <= 4, "the partition that moved, and its like for what there could be"


@pytest.mark.usefixtures("turns")
async def test_time_that_is_up_is_noticed_when_everything_moves(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = Reader(family, CONSUMER)
    assert await reader.ask(dict.fromkeys(range(COUNT), 0), max_wait_ms=30, min_bytes=1 << 20) is None
    for _ in range(6):
        await asyncio.sleep(0)
    for partition in partitions:
        append(partition, b"a")
        commit(partition, 1)
    answer = await reader.desk.later(ApiKey.FETCH, 17)
    assert all(decode_records(found.records) for found in answer.responses[0].partitions)
    assert len(answer.responses[0].partitions) == COUNT


@pytest.mark.usefixtures("turns")
async def test_client_that_goes_while_its_partitions_are_read_leaves_nothing(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = Reader(family, CONSUMER)
    reader.epoch = -1
    assert await reader.ask(dict.fromkeys(range(COUNT), 0), max_wait_ms=LONG_MS) is None
    await asyncio.sleep(0)
    reader.desk.abandon()
    await asyncio.sleep(0)
    assert (watchers(partitions), len(family.turns)) == (0, 0)


async def test_partition_that_is_forgotten_while_a_fetch_waits_is_not_watched(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = await reader_at_the_end(family)
    assert await reader.ask({0: 0}, max_wait_ms=LONG_MS) is None
    await reader.ask(forgotten=(0,))
    append(partitions[1], b"a")
    commit(partitions[1], 1)
    assert indexes(await reader.desk.later(ApiKey.FETCH, 17)) == [1]
    assert len(partitions[0].watchers) == 0


@pytest.mark.usefixtures("turns")
async def test_what_a_later_request_forgets_meanwhile_is_not_watched(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = Reader(family, CONSUMER)
    assert await reader.ask(dict.fromkeys(range(COUNT), 0), max_wait_ms=0) is None
    reader.session_id = (await reader.desk.later(ApiKey.FETCH, 17)).session_id
    assert await reader.ask(dict.fromkeys(range(COUNT), 0), max_wait_ms=LONG_MS) is None
    assert await reader.ask(forgotten=(19,), max_wait_ms=LONG_MS) is None
    await eventually(lambda: not len(family.turns), "all have been read")
    assert watchers(partitions) == COUNT - 1
    reader.desk.abandon()
