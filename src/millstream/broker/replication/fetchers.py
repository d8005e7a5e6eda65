"""Who fetches what: each partition that this broker follows belongs to a fetcher of its leader.

There are `num.replica.fetchers` per leader, each with a connection of its own; a partition always goes to the same of them. Fetchers come
with the first partition of their leader and end with the last one.

After a failover thousands of logs may have to be cut; all fetchers together do that with a few at a time, in the order in which it was
found out. The threads for it are those in which the logs of new partitions are opened, and these do not wait until all is cut.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final
from zlib import crc32

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.peers import Peers
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.broker.tasks import Spawn
from millstream.cluster.partition import Partition
from millstream.log.directories.directory import LogDirectory

if TYPE_CHECKING:
    from millstream.broker.replication.fetcher import Fetcher
    from millstream.client.codecs.replica_fetch import ReplicaKey

CUT_AT_ONCE: Final = 4
"""Fewer than there are threads (six on two cores)."""


class Fetchers:
    """All fetchers of this broker."""

    def __init__(
        self,
        peers: Peers,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        settings: LiveSettings,
        quotas: ReplicationQuotas,
        spawn: Spawn,
    ) -> None:
        self._peers = peers
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._settings = settings
        self._quotas = quotas
        self._spawn = spawn
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        """By leader and number."""
        self._assigned: dict[Partition, tuple[int, int]] = {}
        self._per_leader = settings.current.integer("num.replica.fetchers")
        self._cutting = asyncio.Semaphore(CUT_AT_ONCE)
        self._is_closed = False

    def follow(self, partitions: Iterable[Partition]) -> None:
        """These began or ceased to follow, or follow another leader or in another epoch."""
        if self._is_closed:
            return
        for partition in partitions:
            self._assign(partition)
        for place in [place for place, fetcher in self._fetchers.items() if not len(fetcher)]:
            self._fetchers.pop(place).end()

    def settings_changed(self) -> None:
        """Spread the partitions anew if there are to be more or fewer fetchers."""
        per_leader = self._settings.current.integer("num.replica.fetchers")
        if per_leader != self._per_leader:
            self._per_leader = per_leader
            self.follow(list(self._assigned))

    def quotas_changed(self) -> None:
        """Throttled replicas may be copied faster, or slower."""
        for fetcher in self._fetchers.values():
            fetcher.quotas_changed()

    def directory_failed(self, directory: LogDirectory) -> None:
        """Fetch nothing any more that is in this directory: each fetch would say that the replica is alive and well."""
        self.follow([partition for partition in self._assigned if partition.log.directory is directory])

    def close(self) -> None:
        """Fetch nothing any more."""
        self._is_closed = True
        for fetcher in self._fetchers.values():
            fetcher.end()
        self._fetchers.clear()

    def _assign(self, partition: Partition) -> None:
        key, follower = _key(partition), partition.following
        if partition.log.directory.offline is not None:
            follower = None
        place = None if follower is None else (follower.leader, _number(partition, self._per_leader))
        former = self._assigned.pop(partition, None)
        if former is not None and former != place and former in self._fetchers:
            self._fetchers[former].unfollow(key)
        if follower is not None and place is not None:
            self._assigned[partition] = place
            self._fetcher(place).follow(key, follower)

    def _fetcher(self, place: tuple[int, int]) -> "Fetcher":
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            from millstream.broker.replication.fetcher import Fetcher  # a broker without others follows nothing, and starts sooner
            from millstream.broker.replication.leader_offsets import LeaderOffsets

            settings = self._settings
            fetcher = self._fetchers[place] = Fetcher(
                self._peers.peer(place[0]),
                node_id=self._node_id,
                broker_epoch=self._broker_epoch,
                settings=settings,
                leader_offsets=LeaderOffsets(
                    self._peers,
                    node_id=self._node_id,
                    timeout_s=lambda: settings.current.integer("replica.socket.timeout.ms") / 1000,
                ),
                quotas=self._quotas,
                cutting=self._cutting,
                spawn=self._spawn,
            )
            self._spawn(fetcher.run())
        return fetcher


def _key(partition: Partition) -> "ReplicaKey":
    topic_id = partition.log.topic_id
    assert topic_id is not None, "a log that is followed belongs to a topic"
    return topic_id.bytes, partition.index


def _number(partition: Partition, count: int) -> int:
    return (crc32(partition.topic.encode()) + partition.index) % count
