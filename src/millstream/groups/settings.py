"""What a broker's options say about groups, as one value that the machines read.

Each field is Kafka's option of the same name; the defaults are those of Kafka 4.2. They hold as long as the broker runs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Limits and times of groups."""

    min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`"""
    max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`"""
    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`"""
    max_group_size: int = 2**31 - 1
    """`group.max.size`"""
    max_groups: int = 1_000_000
    """Groups of one shard; Kafka has no such limit. One group more is refused with COORDINATOR_NOT_AVAILABLE."""
    max_pending_members: int = 10_000
    """Members of one group that were given an id and have not come back with it; Kafka has no such limit."""
    max_batch_bytes: int = 1_000_000
    """What one command may write: less than `max.message.bytes` of the topic of offsets, which leaves room for the batch's header."""
    offset_metadata_max_bytes: int = 4_096
    """`offset.metadata.max.bytes`"""
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000
    """`offsets.retention.minutes`"""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`"""
    consumer_session_timeout_ms: int = 45_000
    """`group.consumer.session.timeout.ms`"""
    consumer_heartbeat_interval_ms: int = 5_000
    """`group.consumer.heartbeat.interval.ms`"""
    consumer_max_group_size: int = 2**31 - 1
    """`group.consumer.max.size`"""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """`group.consumer.assignors`; the first is the default"""
    consumer_migration_policy: str = "bidirectional"
    """`group.consumer.migration.policy`"""

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group with members may become a KIP-848 group."""
        return self.consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def allows_downgrade(self) -> bool:
        """Whether a KIP-848 group may become a classic one when only classic members are left."""
        return self.consumer_migration_policy in ("bidirectional", "downgrade")
