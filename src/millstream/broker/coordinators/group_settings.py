"""The broker's options about groups, as the machines and the topic of offsets want them; read once, at start, as Kafka does."""

from millstream.errors import UsageError
from millstream.groups.settings import GroupSettings
from millstream.options.settings import BrokerSettings

MAX_GROUPS = 1_000_000
"""Groups in all. Kafka has no limit; a client that makes up group ids would fill the memory."""
_MINUTE_MS = 60_000
_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
)
"""The first of each pair must not be above the second."""


def group_settings(settings: BrokerSettings) -> GroupSettings:
    """What the options say; UsageError if they contradict each other."""
    for lower, upper in _ORDERED:
        if settings.integer(lower) > settings.integer(upper):
            raise UsageError(f"{lower}={settings.integer(lower)} is above {upper}={settings.integer(upper)}")
    return GroupSettings(
        min_session_timeout_ms=settings.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=settings.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=settings.integer("group.initial.rebalance.delay.ms"),
        max_group_size=settings.integer("group.max.size"),
        max_groups=max(MAX_GROUPS // settings.integer("offsets.topic.num.partitions"), 1),
        offset_metadata_max_bytes=settings.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=settings.integer("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=settings.integer("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=settings.integer("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=settings.integer("group.consumer.heartbeat.interval.ms"),
        consumer_max_group_size=settings.integer("group.consumer.max.size"),
        consumer_assignors=settings.elements("group.consumer.assignors"),
        consumer_migration_policy=(settings.text("group.consumer.migration.policy") or "").lower(),
    )


def offsets_topic_configs(settings: BrokerSettings) -> dict[str, str]:
    """The options of the topic of offsets, as Kafka sets them."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.integer("offsets.topic.segment.bytes")),
    }
