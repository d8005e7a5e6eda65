from collections.abc import Sequence

import pytest

from millstream.coordination import paths
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import Operation, OperationResult
from millstream.paper.groups.assignment import StreamId
from millstream.paper.groups.group_registry import Fenced, GroupRegistry, StoredOffset, read_offset
from millstream.paper.progress import Claim
from millstream.zookeeper.errors import ConnectionLost

ANN, BOB = StreamId("ann", 0), StreamId("bob", 0)
OWNER = paths.partition_owner("search", topic_name="clicks", partition=0)
OFFSET = paths.committed_offset("search", topic_name="clicks", partition=0)


async def registry_of(session: EmbeddedCoordination) -> GroupRegistry:
    registry = GroupRegistry(session, "search")
    await registry.prepare(["clicks"])
    return registry


async def claim_of(registry: GroupRegistry, *, partition: int = 0, start: int = 0) -> Claim:
    stored = await registry.stored("clicks", partition)
    return Claim("clicks", partition, start=start if stored.offset is None else stored.offset, version=stored.version)


async def test_taking_a_partition_makes_an_ephemeral_owner_and_a_persistent_offset(ann: EmbeddedCoordination) -> None:
    registry = await registry_of(ann)
    claim = await claim_of(registry, start=7)
    assert await registry.take(claim, ANN, offset=claim.handled)
    owner, owner_stat = await ann.get(OWNER)
    offset, offset_stat = await ann.get(OFFSET)
    assert (owner, owner_stat.ephemeral_owner) == (b"ann-0", ann.session_id)
    assert (offset, offset_stat.ephemeral_owner) == (b"7", 0)
    assert (claim.is_held, claim.stored) == (True, 7)


async def test_a_partition_that_another_owns_cannot_be_taken_until_it_is_released(
    ann: EmbeddedCoordination, bob: EmbeddedCoordination
) -> None:
    first, second = await registry_of(ann), await registry_of(bob)
    mine = await claim_of(first)
    assert await first.take(mine, ANN, offset=0)
    assert not await second.take(await claim_of(second), BOB, offset=0)
    await first.release([mine])
    assert await second.take(await claim_of(second), BOB, offset=0)
    assert (await bob.get(OWNER))[0] == b"bob-0"


async def test_offsets_are_stored_together_in_one_transaction(ann: EmbeddedCoordination) -> None:
    registry = await registry_of(ann)
    claims = [await claim_of(registry, partition=partition) for partition in range(3)]
    for claim in claims:
        await registry.take(claim, ANN, offset=claim.handled)
        claim.handled = claim.partition + 10
    assert await registry.store(claims) == []
    stats = [await ann.exists(paths.committed_offset("search", topic_name="clicks", partition=partition)) for partition in range(3)]
    assert len({stat.mzxid for stat in stats if stat is not None}) == 1
    assert [(await registry.stored("clicks", partition)).offset for partition in range(3)] == [10, 11, 12]


async def test_nothing_is_written_where_nothing_has_changed(ann: EmbeddedCoordination) -> None:
    registry = await registry_of(ann)
    claim = await claim_of(registry)
    await registry.take(claim, ANN, offset=claim.handled)
    version = (await registry.stored("clicks", 0)).version
    assert await registry.store([claim]) == []
    assert (await registry.stored("clicks", 0)).version == version


async def test_an_owner_that_was_replaced_without_noticing_cannot_store(ann: EmbeddedCoordination, bob: EmbeddedCoordination) -> None:
    """Paused beyond its session, for example: its owner znode is gone, another consumer has taken the partition."""
    first, second = await registry_of(ann), await registry_of(bob)
    late, other = await claim_of(first), await claim_of(first, partition=1)
    await first.take(late, ANN, offset=0)
    await first.take(other, ANN, offset=0)
    await ann.delete(OWNER)
    taken = await claim_of(second)
    assert await second.take(taken, BOB, offset=0)
    late.handled = other.handled = 5
    assert await first.store([late, other]) == [late]
    assert (await second.stored("clicks", 0)).offset == 0
    assert (await second.stored("clicks", 1)).offset == 5
    taken.handled = 3
    assert await second.store([taken]) == []
    assert (await second.stored("clicks", 0)).offset == 3


async def test_a_claim_of_a_former_session_is_taken_again_unless_its_offset_was_written(
    ann: EmbeddedCoordination, bob: EmbeddedCoordination
) -> None:
    registry = await registry_of(ann)
    claim = await claim_of(registry)
    await registry.take(claim, ANN, offset=claim.handled)
    await ann.delete(OWNER)
    claim.handled = 4
    assert await registry.take(claim, ANN, offset=claim.handled)
    assert (await registry.stored("clicks", 0)).offset == 4
    await ann.delete(OWNER)
    await bob.set(OFFSET, b"9")
    with pytest.raises(Fenced):
        await registry.take(claim, ANN, offset=claim.handled)
    assert await ann.exists(OWNER) is None


async def test_two_that_start_at_once_do_not_both_make_the_offset(ann: EmbeddedCoordination, bob: EmbeddedCoordination) -> None:
    first, second = await registry_of(ann), await registry_of(bob)
    mine, theirs = await claim_of(first), await claim_of(second)
    assert await first.take(mine, ANN, offset=0)
    await first.release([mine])
    with pytest.raises(Fenced):
        await second.take(theirs, BOB, offset=0)


async def test_an_offset_that_another_program_wrote_and_that_is_no_number_counts_as_none(ann: EmbeddedCoordination) -> None:
    registry = await registry_of(ann)
    await ann.create(OFFSET, b"nonsense")
    assert await registry.stored("clicks", 0) == StoredOffset(None, 0)


class LossyCoordination:
    """A session whose connection breaks during the next multi: before it is carried out, or after."""

    def __init__(self, session: EmbeddedCoordination, *, is_done: bool) -> None:
        self._session = session
        self._is_done = is_done
        self.is_broken = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if not self.is_broken:
            return await self._session.multi(operations)
        self.is_broken = False
        if self._is_done:
            await self._session.multi(operations)
        raise ConnectionLost("in the middle")


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_write_whose_outcome_is_unknown_is_looked_up(ann: EmbeddedCoordination, is_done: bool) -> None:
    lossy = LossyCoordination(ann, is_done=is_done)
    registry = await registry_of(lossy)  # type: ignore[arg-type]  # it passes on whatever it does not do itself
    claim = await claim_of(registry)
    await registry.take(claim, ANN, offset=claim.handled)
    claim.handled = 5
    lossy.is_broken = True
    with pytest.raises(ConnectionLost):
        await registry.store([claim])
    claim.handled = 6
    assert await registry.store([claim]) == []
    assert (await registry.stored("clicks", 0)).offset == 6


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_partition_of_which_it_is_unknown_whether_it_was_taken_is_taken_again(ann: EmbeddedCoordination, is_done: bool) -> None:
    lossy = LossyCoordination(ann, is_done=is_done)
    registry = await registry_of(lossy)  # type: ignore[arg-type]  # it passes on whatever it does not do itself
    lossy.is_broken = True
    with pytest.raises(ConnectionLost):
        await registry.take(await claim_of(registry), ANN, offset=0)
    if is_done:
        with pytest.raises(Fenced):
            await registry.take(await claim_of(registry), ANN, offset=0)
    assert await registry.take(await claim_of(registry), ANN, offset=0)


async def test_after_a_lost_write_a_claim_that_another_took_is_given_up(ann: EmbeddedCoordination, bob: EmbeddedCoordination) -> None:
    lossy = LossyCoordination(ann, is_done=False)
    registry = await registry_of(lossy)  # type: ignore[arg-type]  # it passes on whatever it does not do itself
    claim = await claim_of(registry)
    await registry.take(claim, ANN, offset=claim.handled)
    claim.handled = 5
    lossy.is_broken = True
    with pytest.raises(ConnectionLost):
        await registry.store([claim])
    await ann.delete(OWNER)
    other = await registry_of(bob)
    await other.take(await claim_of(other), BOB, offset=0)
    assert await registry.store([claim]) == [claim]
    assert (await registry.stored("clicks", 0)).offset == 0


@pytest.mark.parametrize(("data", "offset"), [(b"0", 0), (b"1234\n", 1234), (b"", None), (b"-1", None), (b"x", None), (b"\xff", None)])
def test_an_offset_is_decimal_ascii(data: bytes, offset: int | None) -> None:
    assert read_offset(data) == offset
