"""The group coordinator of this broker: one shard for each partition of `__consumer_offsets` that it leads.

The topic is created when somebody first looks for a coordinator. Shards follow the `ClusterView`: a partition that came is loaded, one that
went is given up, and all are told which topics there are. The number of partitions decides where a group belongs, so it is taken when the
topic is first seen and kept; adding partitions to the topic while groups exist has its effect after a restart, and loses them, as in Kafka.

Shards load one after the other, in one task; the loop goes on meanwhile. A shard that had to be given up is loaded again after a pause,
unless its disk is gone.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, Final
from uuid import UUID

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.topic_creation import TopicCreation
from millstream.broker.coordinators.group_partition import partition_of_group
from millstream.broker.coordinators.group_replay import replay
from millstream.broker.coordinators.group_reply import Answerable, Encode, GroupReply, Refusal, Shape
from millstream.broker.coordinators.group_settings import offsets_topic_configs
from millstream.broker.coordinators.group_shard import GroupShard
from millstream.broker.network.api import Fields, Request
from millstream.broker.network.outbox import Chunk
from millstream.clock import Clock
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator, TopicAlreadyExists
from millstream.groups.commands import GroupCommand
from millstream.groups.consumer.group import ConsumerGroup
from millstream.groups.consumer.topic_patterns import MatchingBudget
from millstream.groups.coordinator import GroupCoordinator
from millstream.groups.settings import GroupSettings
from millstream.groups.topic_image import TopicImage, TopicInfo
from millstream.log.directories.directory import LogDirectory
from millstream.wire.compression import Codec

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
CREATION_TIMEOUT_MS: Final = 10_000
RELOAD_AFTER_SECONDS: Final = 1.0

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class Groups:
    """Finds the shard of a group."""

    def __init__(
        self,
        replicas: Replicas,
        creation: TopicCreation,
        *,
        settings: LiveSettings,
        group_settings: GroupSettings,
        clock: Clock,
        executor: Executor,
        spawn: Spawn,
    ) -> None:
        self._replicas = replicas
        self._creation = creation
        self._settings = settings
        self._clock = clock
        self._executor = executor
        self._spawn = spawn
        self._group_settings = group_settings
        self._shards: dict[int, GroupShard] = {}
        self._topic_id: UUID | None = None
        self._partition_count = 0
        self._image = TopicImage()
        self._view = ClusterView()
        self._reloads: set[asyncio.TimerHandle] = set()
        self._is_closed = False

    def __iter__(self) -> Iterator[GroupShard]:
        return iter(self._shards.values())

    @property
    def image(self) -> TopicImage:
        """The topics that the groups know of."""
        return self._image

    @property
    def is_ready(self) -> bool:
        """Whether the topic of offsets exists."""
        return self._partition_count > 0

    # --- requests

    def submit(
        self, command: GroupCommand, request: Request, *, refuse: Refusal, shape: Shape | None = None, encode: Encode = Request.encode
    ) -> Sequence[Chunk] | None:
        """Let the group's shard decide a command; what a handler returns for it."""
        reply = GroupReply(request, refuse, shape=shape, encode=encode)
        self.handle(command, reply)
        return reply.result()

    def handle(self, command: GroupCommand, reply: Answerable) -> None:
        """Let the group's shard decide a command, or say why nobody can."""
        try:
            self.shard(command.group_id).handle(command, reply)
        except KafkaError as error:
            reply.fail(error)

    def read(self, group_id: str, reply: Answerable, question: Callable[[GroupCoordinator], Fields]) -> None:
        """Answer a question about a group from what its shard knows."""
        try:
            shard = self.shard(group_id)
            fields = question(shard.coordinator)
        except KafkaError as error:
            reply.fail(error)
            return
        shard.answer_when_committed(reply, fields)

    def shard(self, group_id: str) -> GroupShard:
        """Who looks after the group; NotCoordinator if nobody here does."""
        if not self._partition_count:
            raise NotCoordinator("the topic of committed offsets does not exist yet; look for the coordinator, which creates it")
        shard = self._shards.get(partition_of_group(group_id, self._partition_count))
        if shard is None:
            raise NotCoordinator("this broker does not lead the partition of the group")
        return shard

    def check_findable(self, group_id: str) -> None:
        """Raise if it makes no sense to send a client here for that group."""
        if not self.is_ready or not self.shard(group_id).is_in_use:
            raise CoordinatorNotAvailable("the log of the group's offsets cannot be used")

    async def create_topic(self) -> None:
        """Create the topic of offsets; one that somebody else is creating is as good. CoordinatorNotAvailable if that is impossible."""
        settings = self._settings.current
        try:
            topic = self._creation.plan(
                OFFSETS_TOPIC,
                partitions=settings.integer("offsets.topic.num.partitions"),
                replication_factor=settings.integer("offsets.topic.replication.factor"),
                configs=offsets_topic_configs(settings),
            )
            await self._creation.create(topic, timeout_ms=CREATION_TIMEOUT_MS)
        except TopicAlreadyExists:
            await self._creation.await_topic(OFFSETS_TOPIC, timeout_ms=CREATION_TIMEOUT_MS)
        except KafkaError as error:
            logger.error("the topic of committed offsets cannot be created: %s", error)
            raise CoordinatorNotAvailable(f"the topic of committed offsets cannot be created: {error}") from error

    # --- what the cluster looks like

    def apply(self, view: ClusterView) -> None:
        """Follow a new view; the partitions of this broker follow it already."""
        if self._is_closed:
            return
        changed = {name: _info(view.topics.get(name)) for name in view.topics_changed_since(self._view)}
        changed = {name: info for name, info in changed.items() if info != self._image.topics.get(name)}
        self._view = view
        if changed:
            self._image = self._image.with_changes(changed)
        self._apply_topic(view.topics.get(OFFSETS_TOPIC))
        if changed:
            for shard in list(self._shards.values()):
                shard.topics_changed(self._image, changed=changed)

    def _apply_topic(self, topic: TopicState | None) -> None:
        if topic is None or topic.topic_id != self._topic_id:
            self._forget_all()
            if topic is None:
                return
            self._topic_id = topic.topic_id
            self._partition_count = len(topic.partitions)
        hosted = self._replicas.topic(OFFSETS_TOPIC)
        led = {} if hosted is None else {index: one for index, one in hosted.partitions.items() if one.is_leader}
        for index in [index for index in self._shards if index not in led]:
            self._shards.pop(index).give_up(NotCoordinator("another broker leads the partition of the group"))
        added = []
        for index, partition in sorted(led.items()):
            if index not in self._shards and index < self._partition_count:
                codec = Codec(self._settings.current.integer("offsets.topic.compression.codec"))
                shard = GroupShard(partition, clock=self._clock, codec=codec, on_give_up=self._given_up)
                self._shards[index] = shard
                added.append(shard)
        empty = [shard for shard in added if not shard.has_records]
        for shard in empty:
            # Nothing to wait for: the first client of a new topic is served at once.
            shard.activate(self._new_coordinator(), self._image)
        rest = [shard for shard in added if shard.has_records]
        if rest:
            self._spawn(self._load(rest))

    def _forget_all(self) -> None:
        shards, self._shards = self._shards, {}
        self._topic_id = None
        self._partition_count = 0
        for shard in shards.values():
            shard.give_up(NotCoordinator("the topic of committed offsets was deleted"))

    # --- loading

    def directory_failed(self, directory: LogDirectory, error: KafkaError) -> None:
        """The disk of some shards is gone."""
        for shard in list(self._shards.values()):
            if shard.partition.log.directory is directory and shard.is_in_use:
                shard.give_up(error)

    def close(self) -> None:
        """The broker stops: nothing is written any more, whatever becomes due."""
        self._is_closed = True
        for reload in self._reloads:
            reload.cancel()
        for shard in self._shards.values():
            shard.close()

    async def _load(self, shards: list[GroupShard]) -> None:
        """Replay the logs of shards; one that cannot be read is out of use."""
        count = 0
        begun_ms = self._clock.monotonic_ms()
        chunk_bytes = self._settings.current.integer("offsets.load.buffer.size")
        for shard in shards:
            coordinator = self._new_coordinator()
            try:
                count += await replay(shard.partition, coordinator, executor=self._executor, chunk_bytes=chunk_bytes)
            except KafkaError as error:
                logger.error("%r cannot be loaded: %s", shard, error)
                shard.give_up(error)
                continue
            if self._shards.get(shard.partition.index) is shard and shard.is_in_use:
                shard.activate(coordinator, self._image)
        logger.info("read %d records of groups in %d ms", count, self._clock.monotonic_ms() - begun_ms)

    def _given_up(self, shard: GroupShard, error: KafkaError) -> None:
        """Load the shard again soon, if that can help."""
        is_present = self._shards.get(shard.partition.index) is shard
        if not is_present or shard.partition.log.directory.offline is not None:
            return
        shard.begin_loading()

        def reload() -> None:
            self._reloads.discard(timer)
            self._spawn(self._load([shard]))

        timer = asyncio.get_running_loop().call_later(RELOAD_AFTER_SECONDS, reload)
        self._reloads.add(timer)

    def _new_coordinator(self) -> GroupCoordinator:
        budget = MatchingBudget()
        return GroupCoordinator(
            self._group_settings,
            consumer_group=lambda group_id, settings: ConsumerGroup(group_id, settings=settings, budget=budget),
        )


def _info(topic: TopicState | None) -> TopicInfo | None:
    return None if topic is None else TopicInfo(topic.topic_id, len(topic.partitions))
