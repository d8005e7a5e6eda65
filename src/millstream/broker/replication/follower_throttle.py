"""Which partitions of a fetcher are left out of its requests for now, because they are throttled and the quota is used up.

As in Kafka that concerns only partitions that are behind the high watermark of their leader; the others are asked for as ever, and what
they bring counts. Nothing is remembered, and nothing is done, while no rate is set (`ReplicationQuotas.follower`). While partitions wait
they are looked at every second: the topic may not name them any more.
"""

from collections.abc import Iterator
from typing import Final

from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.client.codecs.replica_fetch import ReplicaKey
from millstream.cluster.follower import Follower
from millstream.cluster.replication_quota import is_throttled

LOOK_AGAIN_S: Final = 1.0


class FollowerThrottle:
    """The throttled partitions of one leader."""

    def __init__(self, quotas: ReplicationQuotas) -> None:
        self._quotas = quotas
        self._behind: dict[ReplicaKey, Follower] = {}
        """Those of which the leader has more that is committed."""

    @property
    def is_due(self) -> bool:
        """Whether partitions have to be left out of the next request."""
        quota = self._quotas.follower
        return quota is not None and bool(self._behind) and quota.is_exceeded

    def took(self, key: ReplicaKey, follower: Follower, size_bytes: int, *, high_watermark: int) -> None:
        """So much of a partition was appended; its leader has committed so far."""
        quota = self._quotas.follower
        if quota is None or not _is_copied_slowly(follower):
            self.forget(key)
            return
        quota.count(size_bytes)
        self._quotas.bytes_taken += size_bytes
        if high_watermark > follower.fetch_offset:
            self._behind[key] = follower
        else:
            self.forget(key)

    def left_out(self) -> Iterator[tuple[ReplicaKey, float]]:
        """Each partition that is to be left out, and for how many seconds at most before it is looked at again."""
        quota = self._quotas.follower
        if quota is not None and self._behind and (pause_s := quota.pause_s) > 0:
            self._behind = {key: follower for key, follower in self._behind.items() if _is_copied_slowly(follower)}
            yield from [(key, min(pause_s, LOOK_AGAIN_S)) for key in self._behind]

    def share(self, follower: Follower, max_bytes: int) -> int:
        """How much to ask for of a partition: all that wait share what one would get, so that the pauses stay short."""
        quota = self._quotas.follower
        if quota is None or not _is_copied_slowly(follower):
            return max_bytes
        return max(quota.largest_read(max_bytes) // max(len(self._behind), 1), 1)

    def forget(self, key: ReplicaKey) -> None:
        """The partition is not followed any more."""
        self._behind.pop(key, None)


def _is_copied_slowly(follower: Follower) -> bool:
    partition = follower.partition
    return is_throttled(follower.log.config.follower_replication_throttled_replicas, partition.index, partition.broker.node_id)
