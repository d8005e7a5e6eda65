"""Which partitions this process copies where several share the work through a ZooKeeper: by a group of the paper, without a master.

    /consumers/<group>/ids/<process>        ephemeral: the topics that it copies
    /consumers/<group>/owners/<topic>/<p>   ephemeral: who copies the partition

Each process reads who is there, works out its share (`paper.assignment`, Algorithm 1), gives up what is no longer its own and takes what
is. The partitions are those that the mirror asks about; the progress is not kept here, because the target knows where it ends.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from millstream.coordination import paths
from millstream.coordination.interface import Coordination, SessionState, WatchCallback, WatchEvent
from millstream.mirror.bell import Bell
from millstream.paper.groups.assignment import StreamId, Subscription, assign_range, read_subscription, streams_of
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import ConnectionLost, NodeExists, NoNode, SessionExpired

logger = logging.getLogger(__name__)

_LOOK_S: Final = 30.0
_RETRY_S: Final = 1.0
_SETTLE_S: Final = 0.05
"""Changes come in swarms: what comes within this time is dealt with together."""


class PaperShare:
    """The share of one process, followed by `run`."""

    def __init__(self, coordination: Coordination, *, group: str, process: str, on_change: Callable[[], object]) -> None:
        self._coordination = coordination
        self._group = group
        self._stream = StreamId(process, 0)
        self._path = paths.consumer(group, process)
        self._on_change = on_change
        self._asked: set[TopicPartition] = set()
        self._owned: frozenset[TopicPartition] = frozenset()
        self._watched: set[str] = set()
        self._bell = Bell()
        coordination.add_session_listener(self._session_changed)

    def owns(self, partition: TopicPartition) -> bool:
        """Whether this process copies the partition; what is asked about is what the group shares."""
        if partition not in self._asked:
            self._asked.add(partition)
            self._bell.ring()
        return partition in self._owned

    async def run(self) -> None:
        """Follow the group until cancelled."""
        while True:
            is_complete = False
            try:
                is_complete = await self.divide()
            except (ConnectionLost, SessionExpired) as error:
                logger.info("the group that shares the work waits for ZooKeeper: %s", error)
            await self._bell.wait(_LOOK_S if is_complete else _RETRY_S)
            await asyncio.sleep(_SETTLE_S)

    async def divide(self) -> bool:
        """Own what should be owned; False if some of it is still another's."""
        topics = {partition.topic for partition in self._asked}
        await self._register(topics)
        subscriptions = await self._subscriptions()
        wanted: set[TopicPartition] = set()
        for topic in topics:
            numbers = [partition.partition for partition in self._asked if partition.topic == topic]
            division = assign_range(numbers, streams_of(topic, subscriptions))
            wanted |= {TopicPartition(topic, number) for number in division.get(self._stream, ())}
        await asyncio.gather(*(self._give_up(partition) for partition in self._owned - wanted))
        missing = sorted(wanted - self._owned)
        taken = await asyncio.gather(*(self._take(partition) for partition in missing))
        self._change((self._owned & wanted) | {partition for partition, is_taken in zip(missing, taken, strict=True) if is_taken})
        return all(taken)

    async def _register(self, topics: set[str]) -> None:
        data = Subscription(dict.fromkeys(sorted(topics), 1)).encode()
        try:
            present, stat = await self._coordination.get(self._path)
        except NoNode:
            await self._create_parent(paths.consumer_ids(self._group))
            await self._coordination.create(self._path, data, ephemeral=True)
            return
        if stat.ephemeral_owner != self._coordination.session_id:  # Of a session of ours that is over.
            await self._coordination.delete(self._path)
            await self._coordination.create(self._path, data, ephemeral=True)
        elif present != data:
            await self._coordination.set(self._path, data)

    async def _subscriptions(self) -> dict[str, Subscription]:
        found: dict[str, Subscription] = {}
        ids = paths.consumer_ids(self._group)
        for name in await self._coordination.children(ids, watch=self._watch(ids)):
            path = paths.consumer(self._group, name)
            try:
                data, _ = await self._coordination.get(path, watch=self._watch(path))
            except NoNode:
                self._watched.discard(path)
                continue
            subscription = read_subscription(data)
            if subscription is not None:
                found[name] = subscription
        return found

    async def _take(self, partition: TopicPartition) -> bool:
        path = paths.partition_owner(self._group, topic_name=partition.topic, partition=partition.partition)
        await self._create_parent(path.rpartition("/")[0])
        try:
            await self._coordination.create(path, str(self._stream).encode(), ephemeral=True)
        except NodeExists:
            stat = await self._coordination.exists(path, watch=self._watch(path))
            return stat is not None and stat.ephemeral_owner == self._coordination.session_id
        return True

    async def _give_up(self, partition: TopicPartition) -> None:
        try:
            await self._coordination.delete(paths.partition_owner(self._group, topic_name=partition.topic, partition=partition.partition))
        except NoNode:
            return

    async def _create_parent(self, path: str) -> None:
        if await self._coordination.exists(path) is None:
            try:
                await self._coordination.create(path, make_parents=True)
            except NodeExists:
                return

    def _watch(self, path: str) -> WatchCallback | None:
        """What is to be called when the path changes; None if that is watched already."""
        if path in self._watched:
            return None
        self._watched.add(path)

        def fired(_event: WatchEvent) -> None:
            self._watched.discard(path)
            self._bell.ring()

        return fired

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._change(frozenset())
        if state is SessionState.CONNECTED:
            self._watched.clear()  # Watches do not outlive a lost connection.
            self._bell.ring()

    def _change(self, owned: frozenset[TopicPartition]) -> None:
        if owned != self._owned:
            logger.info("this process copies %d partition(s) now, %d before", len(owned), len(self._owned))
            self._owned = owned
            self._on_change()
