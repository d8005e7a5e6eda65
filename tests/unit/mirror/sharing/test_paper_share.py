from collections.abc import Iterable

from millstream.coordination import paths
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.mirror.sharing.paper_share import PaperShare
from millstream.topic_partition import TopicPartition
from tests.unit.paper.conftest import ann, bob, keeper

__all__ = ["ann", "bob", "keeper"]

PLACES = [TopicPartition("clicks", number) for number in range(4)]


def share_of(session: EmbeddedCoordination, name: str, changes: list[str] | None = None) -> PaperShare:
    heard = [] if changes is None else changes
    share = PaperShare(session, group="mirror", process=name, on_change=lambda: heard.append(name))
    owned(share)
    return share


def owned(share: PaperShare, places: Iterable[TopicPartition] = PLACES) -> list[int]:
    """What it says it owns; asking is what makes it share these partitions."""
    return [place.partition for place in places if share.owns(place)]


async def test_one_process_owns_all_and_says_so(ann: EmbeddedCoordination) -> None:
    changes: list[str] = []
    share = share_of(ann, "a", changes)
    assert await share.divide()
    assert (owned(share), changes) == ([0, 1, 2, 3], ["a"])
    assert await ann.children(paths.consumer_ids("mirror")) == ["a"]


async def test_two_processes_divide_the_partitions_and_none_is_owned_twice(ann: EmbeddedCoordination, bob: EmbeddedCoordination) -> None:
    first, second = share_of(ann, "a"), share_of(bob, "b")
    await first.divide()
    assert not await second.divide()  # the other has not given up yet
    assert owned(second) == []
    assert await first.divide()
    assert await second.divide()
    assert (owned(first), owned(second)) == ([0, 1], [2, 3])


async def test_a_process_that_is_gone_is_replaced(ann: EmbeddedCoordination, bob: EmbeddedCoordination) -> None:
    first, second = share_of(ann, "a"), share_of(bob, "b")
    for share in (first, second, first, second):
        await share.divide()
    await bob.close()
    assert await first.divide()
    assert owned(first) == [0, 1, 2, 3]


async def test_partitions_that_are_asked_about_later_are_shared_too(ann: EmbeddedCoordination) -> None:
    share = share_of(ann, "a")
    await share.divide()
    more = TopicPartition("orders", 0)
    assert not share.owns(more)
    assert await share.divide()
    assert share.owns(more)
