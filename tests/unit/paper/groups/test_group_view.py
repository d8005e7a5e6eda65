import asyncio
from uuid import UUID

from millstream.coordination import paths
from millstream.coordination.cluster_view import BrokerState, TopicState
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.partition_state import PartitionState
from millstream.paper.groups.assignment import Subscription
from millstream.paper.groups.group_view import GroupReader
from tests.topic_znodes import topic_creations

BROKER = BrokerState(1, "host", 9092)
CLICKS = TopicState("clicks", UUID(int=1), (PartitionState.first((1,)), PartitionState.first((2,)), PartitionState.first((1,))))


class Watching:
    """A reader, and how often it was notified of a change."""

    def __init__(self, session: EmbeddedCoordination) -> None:
        self.changes = 0
        self.changed = asyncio.Event()
        self.reader = GroupReader(session, group="search", topics=["clicks"], on_change=self._note)

    def _note(self) -> None:
        self.changes += 1
        self.changed.set()

    async def until_notified(self) -> None:
        await asyncio.wait_for(self.changed.wait(), 10)
        self.changed.clear()


async def test_an_empty_tree_shows_nothing_and_notifies_when_something_comes(ann: EmbeddedCoordination) -> None:
    watching = Watching(ann)
    view = await watching.reader.read()
    assert (view.brokers, view.partitions, view.subscriptions) == ({}, {}, {})
    await ann.multi(topic_creations(CLICKS))
    await watching.until_notified()


async def test_the_partitions_of_a_broker_that_is_gone_vanish(ann: EmbeddedCoordination) -> None:
    await ann.create(paths.broker(1), BROKER.encode())
    await ann.multi(topic_creations(CLICKS))
    view = await Watching(ann).reader.read()
    assert view.partitions == {"clicks": [0, 2]}
    assert view.bootstrap_servers == "host:9092"
    await ann.delete(paths.broker(1))
    assert (await Watching(ann).reader.read()).partitions == {"clicks": []}


async def test_a_partition_whose_leader_is_gone_comes_back_with_its_next_leader(ann: EmbeddedCoordination) -> None:
    await ann.create(paths.broker(1), BROKER.encode())
    await ann.multi(topic_creations(CLICKS))
    watching = Watching(ann)
    assert (await watching.reader.read()).partitions == {"clicks": [0, 2]}
    await ann.set(paths.partition("clicks", 0), CLICKS.partitions[0].encode())
    await ann.set(paths.partition("clicks", 1), PartitionState((2, 1), 1, 1, (1,)).encode())
    await watching.until_notified()
    assert (await watching.reader.read()).partitions == {"clicks": [0, 1, 2]}
    assert watching.changes == 1


async def test_the_consumers_of_the_group_are_seen_with_their_subscriptions(ann: EmbeddedCoordination, bob: EmbeddedCoordination) -> None:
    await ann.create(paths.consumer("search", "ann"), Subscription({"clicks": 1}).encode(), make_parents=True)
    await bob.create(paths.consumer("search", "bob"), Subscription({"clicks": 2}).encode(), ephemeral=True)
    await bob.create(paths.consumer("search", "odd"), b"nonsense")
    await bob.create(paths.consumer("other", "cat"), Subscription({"clicks": 1}).encode(), make_parents=True)
    view = await Watching(ann).reader.read()
    assert view.subscriptions == {"ann": Subscription({"clicks": 1}), "bob": Subscription({"clicks": 2})}


async def test_every_kind_of_change_is_notified_and_reading_twice_does_not_watch_twice(
    ann: EmbeddedCoordination, bob: EmbeddedCoordination
) -> None:
    await ann.multi(topic_creations(CLICKS))
    await ann.create(paths.consumer_ids("search"), make_parents=True)
    watching = Watching(ann)
    for _ in range(3):
        await watching.reader.read()
    await bob.create(paths.broker(1), BROKER.encode(), ephemeral=True)
    await watching.until_notified()
    await watching.reader.read()
    await bob.create(paths.consumer("search", "bob"), b"{}", ephemeral=True)
    await watching.until_notified()
    await watching.reader.read()
    await bob.set(paths.topic("clicks"), CLICKS.header.encode())
    await watching.until_notified()
    assert watching.changes == 3


async def test_znodes_that_make_no_sense_count_as_missing(ann: EmbeddedCoordination) -> None:
    await ann.create(paths.topic("clicks"), b"nonsense")
    await ann.create(paths.broker(1), b"[]")
    await ann.create(f"{paths.BROKER_IDS}/one", BROKER.encode())
    view = await Watching(ann).reader.read()
    assert (view.brokers, view.partitions) == ({}, {})
