"""What a consumer sees of its group before it decides: the brokers, the partitions that are there to read, the other consumers.

Everything is read from the registries, with watches: whatever changes after it was read calls `on_change`, once, and then it is read again.
As in the paper, the partitions of a broker that is gone vanish: a partition counts while its leader is among the living brokers.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from millstream.address import Address
from millstream.coordination import paths
from millstream.coordination.cluster_view import BrokerState
from millstream.coordination.interface import Coordination, WatchEvent
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.coordination.topic_header import COMPLETE, TopicHeader
from millstream.paper.groups.assignment import Subscription, read_subscription
from millstream.zookeeper.errors import NoNode

_NONSENSE = (ValueError, KeyError, TypeError, AttributeError)
"""What comes up when a znode of another program holds no JSON, or lacks something."""


@dataclass(frozen=True)
class GroupView:
    """The registries at one moment."""

    brokers: Mapping[int, BrokerState]
    partitions: Mapping[str, Sequence[int]]
    """The partitions that can be read, of each topic that exists."""
    subscriptions: Mapping[str, Subscription]
    """The living consumers of the group."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the brokers."""
        return ",".join(str(Address(broker.host, broker.port)) for broker in self.brokers.values())


class GroupReader:
    """Reads the view of one group, for some topics."""

    def __init__(self, coordination: Coordination, *, group: str, topics: Sequence[str], on_change: Callable[[], None]) -> None:
        self._coordination = coordination
        self._group = group
        self._topics = topics
        self._on_change = on_change
        self._watched: set[str] = set()

    def forget_watches(self) -> None:
        """Watches do not outlive a lost connection."""
        self._watched.clear()

    async def read(self) -> GroupView:
        """Read everything, all at once."""
        (brokers, subscriptions), counts = await asyncio.gather(
            asyncio.gather(self._brokers(), self._subscriptions()), asyncio.gather(*(self._partition_count(name) for name in self._topics))
        )
        partitions = {
            topic: [number for number in range(count) if await self._is_led(topic, number, brokers)]
            for topic, count in zip(self._topics, counts, strict=True)
            if count is not None
        }
        return GroupView(brokers, partitions, subscriptions)

    async def _brokers(self) -> dict[int, BrokerState]:
        names = await self._children(paths.BROKER_IDS)
        found = await asyncio.gather(*(self._get(f"{paths.BROKER_IDS}/{name}") for name in names))
        brokers = {}
        for name, data in zip(names, found, strict=True):
            try:
                if data is not None and not (broker := BrokerState.decode(int(name), data, epoch=-1)).is_starting:
                    brokers[int(name)] = broker
            except _NONSENSE:
                continue
        return dict(sorted(brokers.items()))

    async def _subscriptions(self) -> dict[str, Subscription]:
        names = await self._children(paths.consumer_ids(self._group))
        found = await asyncio.gather(*(self._get(paths.consumer(self._group, name)) for name in names))
        subscriptions = {name: read_subscription(data) for name, data in zip(names, found, strict=True) if data is not None}
        return {name: subscription for name, subscription in subscriptions.items() if subscription is not None}

    async def _partition_count(self, name: str) -> int | None:
        path = paths.topic(name)
        try:
            data, _ = await self._coordination.get(path, watch=self._watch(path))
            header = TopicHeader.decode(name, data)
            return header.partitions if header.phase == COMPLETE else None
        except NoNode:
            # Reading what is not there sets no watch; asking whether it exists does.
            self._watched.discard(path)
            await self._coordination.exists(path, watch=self._watch(path))
            return None
        except _NONSENSE:
            return None

    async def _is_led(self, topic: str, number: int, brokers: Collection[int]) -> bool:
        """Whether the leader of the partition is alive. If not, its next leader is waited for; who leads otherwise makes no difference."""
        path = paths.partition(topic, number)
        leader = await self._leader(path)
        if leader in brokers:
            return True
        if path not in self._watched:
            # Once more, because it may have changed before it is watched.
            await self._coordination.exists(path, watch=self._watch(path))
            leader = await self._leader(path)
        return leader in brokers

    async def _leader(self, path: str) -> int:
        data = await self._get(path)
        try:
            return NO_LEADER if data is None else PartitionState.decode(data, partition_epoch=0).leader
        except _NONSENSE:
            return NO_LEADER

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._coordination.children(path, watch=self._watch(path))
        except NoNode:
            self._watched.discard(path)
            await self._coordination.exists(path, watch=self._watch(path))
            return []

    async def _get(self, path: str) -> bytes | None:
        # No watch: a registration is written once, and a new life of its owner is a new child.
        try:
            return (await self._coordination.get(path))[0]
        except NoNode:
            return None

    def _watch(self, path: str) -> Callable[[WatchEvent], None] | None:
        """One watch for each path at a time."""
        if path in self._watched:
            return None
        self._watched.add(path)

        def fired(_event: WatchEvent) -> None:
            self._watched.discard(path)
            self._on_change()

        return fired
