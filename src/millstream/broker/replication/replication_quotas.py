"""The quotas for throttled replicas of this broker, as its options have them; none as long as no rate is set.

What was counted outlives a change of the rate: these are figures that can be read off a broker (`broker.metrics`).
"""

from typing import TYPE_CHECKING

from millstream.clock import Clock
from millstream.options.settings import BrokerSettings

if TYPE_CHECKING:
    from millstream.cluster.partition import Partition
    from millstream.cluster.replication_quota import ReplicationQuota


class ReplicationQuotas:
    """What limits the replicas that are sent and those that are taken."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._applied: BrokerSettings | None = None
        self.leader: ReplicationQuota | None = None
        """For what followers fetch from this broker."""
        self.follower: ReplicationQuota | None = None
        """For what this broker fetches."""
        self.bytes_sent = self.bytes_taken = 0
        """Of throttled replicas, while there was a rate."""
        self.times_not_sent = self.times_not_asked = 0
        """How often a partition was left out of an answer, or of a request."""

    def apply(self, settings: BrokerSettings) -> bool:
        """Follow the options; whether a rate is another one now."""
        if settings is self._applied:
            return False
        self._applied = settings
        former = self.leader, self.follower
        self.leader = self._quota(self.leader, settings.value("leader.replication.throttled.rate"))
        self.follower = self._quota(self.follower, settings.value("follower.replication.throttled.rate"))
        return (self.leader, self.follower) != former

    def room_for(self, partition: "Partition", replica: int, room: int) -> int | None:
        """How much of `room` bytes a partition that is led here may take in an answer to a follower; None while it has to wait."""
        quota, leading = self.leader, partition.leading
        if quota is None or leading is None or replica in leading.replica_set.state.in_sync_replicas or not _is_sent_slowly(partition):
            return room
        if quota.is_exceeded:
            self.times_not_sent += 1
            return None
        return quota.largest_read(room)

    def sent(self, partition: "Partition", size_bytes: int) -> None:
        """So much of a partition was put into an answer to a follower, in sync or not."""
        if self.leader is not None and size_bytes > 0 and _is_sent_slowly(partition):
            self.leader.count(size_bytes)
            self.bytes_sent += size_bytes

    def _quota(self, former: "ReplicationQuota | None", rate: object) -> "ReplicationQuota | None":
        if not isinstance(rate, int):
            return None
        if former is not None and former.bytes_per_s == rate:
            return former
        from millstream.cluster.replication_quota import ReplicationQuota  # few brokers are ever throttled

        return ReplicationQuota(rate, self._clock)


def _is_sent_slowly(partition: "Partition") -> bool:
    from millstream.cluster.replication_quota import is_throttled  # as above

    return is_throttled(partition.log.config.leader_replication_throttled_replicas, partition.index, partition.broker.node_id)
