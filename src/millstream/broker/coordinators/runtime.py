"""The runtime of a coordinator: one machine for each partition of its topic that this broker leads.

Whatever is coordinated has a key. Java's hash of it, modulo the number of partitions, says which partition keeps it, as in Kafka, so that
its tools look in the right place; what the machine there decides is appended to that partition (`context`). What that may be is not known
here: services of the broker hand in operations on their machines, as Kafka's do.

Contexts follow the leadership of the topic's partitions: one that this broker leads from now on is loaded, one that it leads no longer is
unloaded, and a context belongs to one leader epoch: if that is another one, others may have written meanwhile, and the log is read
again. The number of partitions decides where a key belongs,
so it is taken when the topic is first seen and kept; adding partitions later has its effect after a restart, and loses what was there, as
in Kafka. Contexts load one after the other, in one task (`loader`); the loop goes on meanwhile. One whose machine had to be given up is
loaded again after a pause, unless its disk is gone.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from functools import lru_cache
from typing import Final, Generic
from uuid import UUID

from millstream.broker.coordinators.context import Answerable, CoordinatorContext, ShardT
from millstream.broker.coordinators.loader import replay
from millstream.broker.tasks import Spawn
from millstream.clock import Clock
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import TopicState
from millstream.coordinator_shard import Outcome
from millstream.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator
from millstream.log.directories.directory import LogDirectory
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp

logger = logging.getLogger(__name__)

RELOAD_AFTER_SECONDS: Final = 1.0
REMEMBERED_HASHES: Final = 8_192
SHORT: Final = 256
"""Hashes of longer keys are not remembered, so that what is remembered is bounded in bytes, too."""


class CoordinatorRuntime(Generic[ShardT]):
    """Finds the machine of a key, and lets it decide."""

    def __init__(
        self,
        topic: str,
        replicas: Replicas,
        *,
        new_shard: Callable[[int], ShardT],
        on_active: Callable[[CoordinatorContext[ShardT]], None] | None = None,
        on_committed: Callable[[CoordinatorContext[ShardT], Outcome], None] | None = None,
        codec: Codec,
        load_bytes: int,
        commit_timeout_ms: int,
        clock: Clock,
        executor: Executor,
        spawn: Spawn,
    ) -> None:
        """`new_shard` makes the machine of a partition that is led in the given epoch; of a log, `load_bytes` are read at once.

        `on_active` is called with each context that was just loaded, `on_committed` with outcomes that have consequences, when they
        are committed.

        `commit_timeout_ms`: how long what was decided may take to be committed before those who wait for it are answered with an error.
        """
        self.topic = topic
        self._replicas = replicas
        self._new_shard = new_shard
        self._on_active = on_active
        self._on_committed = on_committed
        self._codec = codec
        self._load_bytes = load_bytes
        self._commit_timeout_ms = commit_timeout_ms
        self._clock = clock
        self._executor = executor
        self._spawn = spawn
        self._contexts: dict[int, CoordinatorContext[ShardT]] = {}
        self._topic_id: UUID | None = None
        self._partition_count = 0
        self._reloads: set[asyncio.TimerHandle] = set()
        self._is_closed = False

    def __iter__(self) -> Iterator[CoordinatorContext[ShardT]]:
        return iter(list(self._contexts.values()))

    @property
    def is_ready(self) -> bool:
        """Whether the topic exists."""
        return self._partition_count > 0

    # --- operations

    def write(
        self,
        key: str,
        operation: Callable[[ShardT, int], Outcome],
        reply: Answerable,
        *,
        batched: bool = False,
        transaction: ProducerStamp | None = None,
    ) -> None:
        """Let the machine of the key decide; `reply`, which the operation hands to it, is answered by the machine or fails here.

        `transaction`: what it writes belongs to the open transaction of this producer.
        """
        try:
            context = self.context(key)
            context.check_writable()
            context.write(operation, batched=batched, transaction=transaction)
        except KafkaError as error:
            reply.fail(error)

    def read(self, key: str, question: Callable[[ShardT], Mapping[str, object]], reply: Answerable) -> None:
        """Answer a question from what the machine of the key knows."""
        try:
            self.context(key).read(question, reply)
        except KafkaError as error:
            reply.fail(error)

    def context(self, key: str) -> CoordinatorContext[ShardT]:
        """Where the key is kept; NotCoordinator if that is not here."""
        if not self._partition_count:
            raise NotCoordinator(f"the topic {self.topic} does not exist yet; look for the coordinator, which creates it")
        context = self._contexts.get(self.partition_of(key))
        if context is None:
            raise NotCoordinator(f"this broker does not lead the partition of {self.topic} that is asked for")
        return context

    def context_of(self, partition: Partition) -> CoordinatorContext[ShardT]:
        """What is kept in a partition; NotCoordinator if that is not known here (yet)."""
        context = self._contexts.get(partition.index)
        if context is None or context.partition is not partition:
            raise NotCoordinator(f"{partition.topic}-{partition.index} has no coordinator here")
        return context

    def partition_of(self, key: str) -> int:
        """The partition in which a key is kept, of a topic that exists."""
        return partition_for(key, self._partition_count)

    def check_available(self, key: str) -> None:
        """Raise if it makes no sense to send a client here for that key."""
        if not self.is_ready or not self.context(key).is_in_use:
            raise CoordinatorNotAvailable(f"the log of {self.topic} cannot be used")

    # --- which partitions there are

    def apply(self, topic: TopicState | None) -> None:
        """Follow the topic as the cluster has it now; the partitions of this broker follow it already."""
        if self._is_closed:
            return
        if topic is None or topic.topic_id != self._topic_id:
            self._forget_all()
            if topic is None:
                return
            self._topic_id = topic.topic_id
            self._partition_count = len(topic.partitions)
        self._follow_roles()

    def roles_changed(self, partitions: Iterable[Partition]) -> None:
        """Some partitions began or ceased to be led here, between two views or while one is being taken over."""
        if not self._is_closed and self.is_ready and any(partition.topic == self.topic for partition in partitions):
            self._follow_roles()

    def _follow_roles(self) -> None:
        self._unload_lost()
        hosted = self._replicas.topic(self.topic)
        led = {} if hosted is None else {index: one for index, one in hosted.partitions.items() if one.is_leader}
        filled = []
        for index, partition in sorted(led.items()):
            if index in self._contexts or index >= self._partition_count:
                continue
            context = CoordinatorContext(
                partition,
                clock=self._clock,
                codec=self._codec,
                commit_timeout_ms=self._commit_timeout_ms,
                on_committed=self._on_committed,
                on_failed=self._failed,
            )
            self._contexts[index] = context
            if context.has_records:
                filled.append(context)
            else:
                # Nothing to wait for: the first client of a new topic is served at once.
                self._activate(context, self._new_shard(context.leading.leader_epoch))
        if filled:
            self._spawn(self._load(filled))

    def _unload_lost(self) -> None:
        """Let go of partitions that this broker leads no longer, or in another epoch by now."""
        lost = {index: context for index, context in self._contexts.items() if not context.is_led}
        for index, context in lost.items():
            del self._contexts[index]
            context.unload(NotCoordinator(f"another broker leads {self.topic}-{index}"))
        if lost:
            logger.info("%d partitions of %s are led by other brokers, or anew: their coordinators here stop", len(lost), self.topic)

    def _forget_all(self) -> None:
        contexts, self._contexts = self._contexts, {}
        self._topic_id = None
        self._partition_count = 0
        for context in contexts.values():
            context.unload(NotCoordinator(f"the topic {self.topic} was deleted"))

    def directory_failed(self, directory: LogDirectory, error: KafkaError) -> None:
        """The disk of some partitions is gone."""
        for context in self:
            if context.partition.log.directory is directory and context.is_in_use:
                context.fail(error)

    def close(self) -> None:
        """The broker stops: nothing is written any more, whatever becomes due."""
        self._is_closed = True
        for reload in self._reloads:
            reload.cancel()
        contexts, self._contexts = self._contexts, {}
        for context in contexts.values():
            context.close()

    # --- loading

    async def _load(self, contexts: list[CoordinatorContext[ShardT]]) -> None:
        """Replay the logs of partitions; one that cannot be read is out of use."""
        count = 0
        begun_ms = self._clock.monotonic_ms()
        for context in contexts:
            if not self._is_kept(context):
                continue
            shard = self._new_shard(context.leading.leader_epoch)
            try:
                count += await replay(context.partition, shard, executor=self._executor, chunk_bytes=self._load_bytes)
            except KafkaError as error:
                if self._is_kept(context):
                    logger.error("%r cannot be loaded: %s", context, error)
                    context.fail(error)
                continue
            if self._is_kept(context) and context.is_in_use:
                self._activate(context, shard)
        logger.info("read %d records of %s in %d ms", count, self.topic, self._clock.monotonic_ms() - begun_ms)

    def _is_kept(self, context: CoordinatorContext[ShardT]) -> bool:
        """Whether the partition is still led here, in the same epoch."""
        return self._contexts.get(context.partition.index) is context and context.is_led

    def _activate(self, context: CoordinatorContext[ShardT], shard: ShardT) -> None:
        context.activate(shard)
        if context.is_active and self._on_active is not None:
            self._on_active(context)

    def _failed(self, context: CoordinatorContext[ShardT]) -> None:
        """Load it again soon, if that can help."""
        if not self._is_kept(context) or context.partition.log.directory.offline is not None:
            return
        context.begin_loading()

        def reload() -> None:
            self._reloads.discard(timer)
            self._spawn(self._load([context]))

        timer = asyncio.get_running_loop().call_later(RELOAD_AFTER_SECONDS, reload)
        self._reloads.add(timer)


def partition_for(key: str, partition_count: int) -> int:
    """The absolute value of Java's `String.hashCode`, modulo the number of partitions; that of its smallest number is 0 (`Utils.abs`)."""
    hash_code = _short_hash_code(key) if len(key) <= SHORT else java_hash_code(key)
    return (min(hash_code, 0x1_0000_0000 - hash_code) & 0x7FFFFFFF) % partition_count


def java_hash_code(text: str) -> int:
    """Java's `String.hashCode`, as 32 bits without sign: over UTF-16 units, not over characters."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    hash_code = 0
    for unit in units:
        hash_code = (31 * hash_code + unit) & 0xFFFFFFFF
    return hash_code


_short_hash_code = lru_cache(REMEMBERED_HASHES)(java_hash_code)
