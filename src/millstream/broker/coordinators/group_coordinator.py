"""The group coordinator of this broker: decides about groups whose partition of `__consumer_offsets` it leads.

The runtime keeps the machines and their logs; here is what is special to groups: the topic, which is created when a coordinator is first
looked for, and the image of all topics, which every machine is shown when it is loaded and when something in it changed.
"""

from collections.abc import Collection, Sequence
from concurrent.futures import Executor

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.topics_on_demand import TopicsOnDemand, WantedTopic
from millstream.broker.coordinators.context import Answerable, CoordinatorContext
from millstream.broker.coordinators.coordinator_topic import CoordinatorTopic, replicas_of
from millstream.broker.coordinators.reply import CoordinatorReply, Encode, Refusal, Shape
from millstream.broker.coordinators.runtime import CoordinatorRuntime, partition_for
from millstream.broker.network.api import Request
from millstream.broker.network.outbox import Chunk
from millstream.broker.tasks import Spawn
from millstream.clock import Clock
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.coordination.topic_names import OFFSETS_TOPIC
from millstream.errors import UsageError
from millstream.groups.commands import ConsumerHeartbeat, GroupCommand
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard
from millstream.groups.topic_image import TopicImage, TopicInfo
from millstream.options.settings import BrokerSettings
from millstream.wire.compression import Codec

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


class GroupCoordinator:
    """Takes commands and questions about groups."""

    def __init__(
        self,
        replicas: Replicas,
        on_demand: TopicsOnDemand,
        *,
        settings: LiveSettings,
        group_settings: GroupSettings,
        clock: Clock,
        executor: Executor,
        spawn: Spawn,
    ) -> None:
        self._settings = settings
        self._view = ClusterView()
        self.image = TopicImage()
        """The topics that the groups know of."""
        self.runtime = CoordinatorRuntime(
            OFFSETS_TOPIC,
            replicas,
            new_shard=lambda _leader_epoch: GroupCoordinatorShard(group_settings),
            on_active=self._show_topics,
            codec=Codec(settings.current.integer("offsets.topic.compression.codec")),
            load_bytes=settings.current.integer("offsets.load.buffer.size"),
            commit_timeout_ms=settings.current.integer("offsets.commit.timeout.ms"),
            clock=clock,
            executor=executor,
            spawn=spawn,
        )
        self.topic = CoordinatorTopic("the topic of committed offsets", self.runtime, on_demand, wanted=self._wanted_topic)

    def submit(
        self, command: GroupCommand, request: Request, *, refuse: Refusal, shape: Shape | None = None, encode: Encode = Request.encode
    ) -> Sequence[Chunk] | None:
        """Let the group's shard decide a command; what a handler returns for it."""
        reply = CoordinatorReply(request, refuse, shape=shape, encode=encode)
        self.handle(command, reply)
        return reply.result()

    def handle(self, command: GroupCommand, reply: Answerable) -> None:
        """Let the group's shard decide a command. In a KIP-848 rebalance every heartbeat leaves a record: they share batches."""
        self.runtime.write(
            command.group_id,
            lambda shard, now_ms: shard.handle(command, reply, now_ms=now_ms),
            reply,
            batched=type(command) is ConsumerHeartbeat,
        )

    def _wanted_topic(self) -> WantedTopic:
        settings = self._settings.current
        return WantedTopic(
            OFFSETS_TOPIC,
            partitions=settings.integer("offsets.topic.num.partitions"),
            replication_factor=replicas_of(settings.integer("offsets.topic.replication.factor"), self._view),
            configs=offsets_topic_configs(settings),
        )

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` in which a group is kept, or will be when the topic is created."""
        if self.runtime.is_ready:
            return self.runtime.partition_of(group_id)
        return partition_for(group_id, self._settings.current.integer("offsets.topic.num.partitions"))

    def apply(self, view: ClusterView) -> None:
        """Follow a new view; the partitions of this broker follow it already."""
        changed = {name: _info(view.topics.get(name)) for name in view.topics_changed_since(self._view)}
        changed = {name: info for name, info in changed.items() if info != self.image.topics.get(name)}
        self._view = view
        if changed:
            self.image = self.image.with_changes(changed)
        self.runtime.apply(view.topics.get(OFFSETS_TOPIC))
        if changed:
            for context in self.runtime:
                if context.is_active:
                    self._show_topics(context, changed=changed)

    def _show_topics(self, context: CoordinatorContext[GroupCoordinatorShard], *, changed: Collection[str] | None = None) -> None:
        context.write(lambda shard, now_ms: shard.topics_changed(self.image, now_ms, changed=changed))


def group_settings(settings: BrokerSettings) -> GroupSettings:
    """What the options say, which are read once, at start, as in Kafka; UsageError if they contradict each other."""
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


def _info(topic: TopicState | None) -> TopicInfo | None:
    return None if topic is None else TopicInfo(topic.topic_id, len(topic.partitions))
