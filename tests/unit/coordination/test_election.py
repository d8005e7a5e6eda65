import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.coordination import paths
from millstream.coordination.election import ControllerClaim, ControllerElection
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import Create, Operation, OperationResult
from millstream.files import Files
from millstream.zookeeper.errors import BadVersion, ConnectionLost
from millstream.zookeeper.keeper import TreeKeeper
from tests.manual_clock import ManualClock


class Candidate:
    """A broker that notes what the election decides."""

    def __init__(self, keeper: TreeKeeper, broker_id: int) -> None:
        self.coordination = EmbeddedCoordination(keeper, broker_session_name=f"broker-{broker_id}")
        self.claims: list[ControllerClaim | None] = []
        self.changed = asyncio.Event()
        self.election = ControllerElection(
            self.coordination, broker_id=broker_id, on_elected=self._note, on_resigned=lambda: self._note(None)
        )

    def _note(self, claim: ControllerClaim | None) -> None:
        self.claims.append(claim)
        self.changed.set()

    async def next_change(self) -> None:
        async with asyncio.timeout(10):
            await self.changed.wait()
        self.changed.clear()


@pytest.fixture
async def keeper(tmp_path: Path, clock: ManualClock) -> AsyncIterator[TreeKeeper]:
    keeper = await TreeKeeper.open(tmp_path, files=Files(), clock=clock)
    yield keeper
    await keeper.close()


async def test_a_lone_broker_is_controller_at_once(keeper: TreeKeeper) -> None:
    broker = Candidate(keeper, 1)
    await broker.election.start()
    assert broker.claims == [ControllerClaim(broker_id=1, epoch=1, epoch_version=1)]
    assert (await broker.coordination.get(paths.CONTROLLER_EPOCH))[0] == b"1"
    await broker.election.stop()
    assert broker.claims[-1] is None
    assert await broker.coordination.exists(paths.CONTROLLER) is None


async def test_the_next_broker_takes_over_when_the_session_of_the_first_ends(keeper: TreeKeeper) -> None:
    first, second = Candidate(keeper, 1), Candidate(keeper, 2)
    await first.election.start()
    await second.election.start()
    assert second.claims == []
    await first.coordination.close()
    await second.next_change()
    assert second.claims == [ControllerClaim(2, 2, 2)]
    await second.election.stop()
    await first.election.stop()


async def test_a_controller_that_was_replaced_cannot_write(keeper: TreeKeeper) -> None:
    old, new = Candidate(keeper, 1), Candidate(keeper, 2)
    await old.election.start()
    claim = old.election.claim
    assert claim is not None
    await old.coordination.multi([claim.fence(), Create("/written")])
    await old.election.stop()
    await new.election.start()
    with pytest.raises(BadVersion):
        await old.coordination.multi([claim.fence(), Create("/too-late")])
    await new.election.stop()


async def test_deleting_the_controllers_znode_asks_for_an_election(keeper: TreeKeeper) -> None:
    broker = Candidate(keeper, 1)
    await broker.election.start()
    broker.changed.clear()
    await broker.coordination.delete(paths.CONTROLLER)
    await broker.next_change()
    while len(broker.claims) < 3:
        await broker.next_change()
    assert broker.claims == [ControllerClaim(1, 1, 1), None, ControllerClaim(1, 2, 2)]
    await broker.election.stop()


async def test_a_controller_whose_znode_names_another_one_is_elected_anew(keeper: TreeKeeper) -> None:
    broker = Candidate(keeper, 1)
    await broker.election.start()
    await broker.coordination.set(paths.CONTROLLER, b'{"broker_id": 2}')
    while len(broker.claims) < 3:
        await broker.next_change()
    assert broker.claims == [ControllerClaim(1, 1, 1), None, ControllerClaim(1, 2, 2)]
    assert (await broker.coordination.get(paths.CONTROLLER))[0] == b'{"broker_id": 1}'
    await broker.election.stop()


async def test_a_claim_whose_answer_was_lost_is_made_again(keeper: TreeKeeper) -> None:
    broker = Candidate(keeper, 1)
    real_multi = broker.coordination.multi

    async def multi_without_an_answer(operations: list[Operation]) -> list[OperationResult]:
        await real_multi(operations)
        broker.coordination.__dict__.pop("multi")
        raise ConnectionLost("the answer was lost")

    broker.coordination.__dict__["multi"] = multi_without_an_answer
    with pytest.raises(ConnectionLost):
        await broker.election.start()
    await broker.election.start()
    assert broker.claims == [ControllerClaim(1, 2, 2)]
    await broker.election.stop()


@pytest.mark.parametrize("nonsense", [b"", b"-1", b"many", b"2147483647", b"9" * 5000])
async def test_an_epoch_that_makes_no_sense_is_logged_and_counted_on(
    keeper: TreeKeeper, nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Candidate(keeper, 1)
    await broker.election.start()
    await broker.coordination.set(paths.CONTROLLER_EPOCH, nonsense)
    # It fences this controller off, and no other would be elected.
    while broker.claims[-1] is None or broker.claims[-1].epoch == 1:
        await broker.next_change()
    await broker.coordination.multi([broker.claims[-1].fence(), Create("/written")])
    assert (await broker.coordination.get(paths.CONTROLLER_EPOCH))[0] == str(broker.claims[-1].epoch).encode()
    assert caplog.text.count("/controller_epoch makes no sense") == 1
    await broker.election.stop()


async def test_an_epoch_that_was_removed_is_made_again_and_counted_on(keeper: TreeKeeper) -> None:
    broker = Candidate(keeper, 1)
    await broker.election.start()
    await broker.coordination.delete(paths.CONTROLLER_EPOCH)
    while broker.claims[-1] is None or broker.claims[-1].epoch == 1:
        await broker.next_change()
    await broker.coordination.multi([broker.claims[-1].fence(), Create("/written")])
    assert broker.claims[-1].epoch == 2
    await broker.election.stop()
