import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.coordination import paths
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import ZnodeStat
from millstream.errors import CoordinatorLoadInProgress
from millstream.files import Files
from millstream.transactions.producer_ids import BLOCK_SIZE, HIGHEST_MIRRORED, ProducerIds
from millstream.zookeeper.errors import BadVersion, ConnectionLost
from tests.manual_clock import ManualClock


@pytest.fixture
async def coordination(tmp_path: Path) -> AsyncIterator[EmbeddedCoordination]:
    opened = await EmbeddedCoordination.open(tmp_path, files=Files(), clock=ManualClock(), broker_session_name="b", is_synced=False)
    yield opened
    await opened.close()


async def test_ids_count_up_over_the_end_of_a_block(coordination: EmbeddedCoordination) -> None:
    ids = ProducerIds(coordination)
    assert [await ids.take() for _ in range(BLOCK_SIZE + 2)] == list(range(BLOCK_SIZE + 2))


async def test_no_two_brokers_and_no_two_lives_of_one_get_the_same_id(coordination: EmbeddedCoordination) -> None:
    brokers = [ProducerIds(coordination) for _ in range(3)]
    taken = await asyncio.gather(*(broker.take() for broker in brokers for _ in range(50)))
    assert len(set(taken)) == 150
    assert await ProducerIds(coordination).take() == 3 * BLOCK_SIZE


async def test_a_block_that_another_broker_took_meanwhile_is_left_to_it(
    coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ProducerIds(coordination).take()
    really_set = coordination.set
    rivals = [ProducerIds(coordination)]

    async def set_late(path: str, data: bytes, *, version: int = -1) -> ZnodeStat:
        if rivals:
            await rivals.pop().take()
        return await really_set(path, data, version=version)

    monkeypatch.setattr(coordination, "set", set_late)
    assert await ProducerIds(coordination).take() == 2 * BLOCK_SIZE
    with pytest.raises(BadVersion):
        await really_set(paths.PRODUCER_IDS, b"", version=0)


@pytest.mark.parametrize("nonsense", [b"", b'{"next": "0"}', b'{"next": -1}', b'{"next": 9223372036854775807}'])
async def test_no_id_is_handed_out_while_it_is_unknown_which_are_taken(
    coordination: EmbeddedCoordination, nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await coordination.create(paths.PRODUCER_IDS, nonsense)
    ids = ProducerIds(coordination)
    for _ in range(2):
        with pytest.raises(CoordinatorLoadInProgress, match="/producer_ids makes no sense"):
            await ids.take()
    assert caplog.text.count("makes no sense") == 1
    await coordination.set(paths.PRODUCER_IDS, b'{"next": 5000}')
    assert await ids.take() == 5000


async def test_no_broker_hands_out_ids_that_a_mirror_brought(coordination: EmbeddedCoordination) -> None:
    one, other = ProducerIds(coordination), ProducerIds(coordination)
    assert [await one.take(), await other.take()] == [0, BLOCK_SIZE]
    await one.skip_to(4321)
    assert [await other.take(), await one.take()] == [5000, 6000]
    await other.skip_to(17)
    assert [await one.take(), await ProducerIds(coordination).take()] == [6001, 7000]


async def test_ids_of_a_mirror_are_set_aside_block_by_block(coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ProducerIds(coordination)
    await ids.skip_to(4321)

    async def no_write(*_: object, **__: object) -> ZnodeStat:
        raise AssertionError

    monkeypatch.setattr(coordination, "set", no_write)
    await ids.skip_to(4999)
    with pytest.raises(AssertionError):
        await ids.skip_to(5000)


async def test_ids_that_a_producer_made_up_do_not_use_up_all_that_are_left(coordination: EmbeddedCoordination) -> None:
    ids = ProducerIds(coordination)
    await ids.skip_to(HIGHEST_MIRRORED + 1)
    assert await ids.take() == 0
    await ids.skip_to(HIGHEST_MIRRORED)
    assert await ids.take() == HIGHEST_MIRRORED + 1


async def test_no_id_is_handed_out_while_it_is_unknown_which_ones_a_mirror_brought(
    coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not from a block of before: another broker may have set its ids aside meanwhile, for a topic that is promoted."""
    ids, other = ProducerIds(coordination), ProducerIds(coordination)
    assert await ids.take() == 0
    await other.skip_to(4321)

    async def away(_path: str) -> tuple[bytes, ZnodeStat]:
        raise ConnectionLost

    with monkeypatch.context() as patch:
        patch.setattr(coordination, "get", away)
        for cut_off in (ids, ProducerIds(coordination)):
            with pytest.raises(CoordinatorLoadInProgress, match="no producer ids can be handed out for now"):
                await cut_off.take()
    assert await ids.take() == 5000
