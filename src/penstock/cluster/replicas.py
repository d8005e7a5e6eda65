"""The partitions this broker keeps, by topic: what a request looks up, kept in step with the `ClusterView`.

`apply` is called with each new view before it is shown to clients. It opens or creates the logs of partitions that came (in a thread: new
files are synced), hands changed state and configs to those that stay, and lets go of those that went. The look-ups are plain dictionaries
on the event loop.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from penstock.cluster.partition import FlushRequest, Partition
from penstock.coordination.cluster_view import ClusterView, TopicState
from penstock.errors import KafkaError, StorageError, UnknownTopicId, UnknownTopicOrPartition
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.manager import LogManager

logger = logging.getLogger(__name__)

TopicKey = str | bytes
"""A topic by its name or by the 16 bytes of its id."""


class HostedTopic:
    """A topic of which this broker keeps at least one partition."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, Partition] = {}


class Replicas:
    """All partitions of this broker."""

    def __init__(
        self,
        logs: LogManager,
        *,
        node_id: int,
        log_config: Callable[[TopicState], LogConfig],
        request_flush: FlushRequest,
        remove_later: Callable[[Path, int], None],
    ) -> None:
        self._logs = logs
        self._node_id = node_id
        self._log_config = log_config
        self._request_flush = request_flush
        self._remove_later = remove_later
        self._topics: dict[TopicKey, HostedTopic] = {}

    def __iter__(self) -> Iterator[Partition]:
        for key, topic in list(self._topics.items()):
            if isinstance(key, str):
                yield from list(topic.partitions.values())

    def topic(self, key: TopicKey) -> HostedTopic | None:
        """The topic of that name or id, if this broker keeps any of it."""
        return self._topics.get(key)

    def partition(self, key: TopicKey | None, index: int) -> Partition:
        """The partition; raises with Kafka's code for what is unknown."""
        topic = self._topics.get(key)  # type: ignore[arg-type]  # None is no topic's key
        if topic is None:
            if isinstance(key, bytes):
                raise UnknownTopicId(f"no topic has the id {UUID(bytes=key)}")
            raise UnknownTopicOrPartition(f"topic {key!r} does not exist")
        partition = topic.partitions.get(index)
        if partition is None:
            raise UnknownTopicOrPartition(f"topic {topic.name!r} has no partition {index} on this broker")
        return partition

    def high_watermark_of(self, log: Log) -> int:
        """How far the log is committed; a log without a partition has nothing committed."""
        topic = self._topics.get(log.topic)
        partition = topic.partitions.get(log.partition) if topic is not None else None
        return log.log_start_offset if partition is None else partition.high_watermark.value

    async def apply(self, view: ClusterView) -> None:
        """Make what this broker keeps agree with the view."""
        for topic in [hosted for key, hosted in self._topics.items() if isinstance(key, str)]:
            current = view.topics.get(topic.name)
            if current is None or current.topic_id != topic.topic_id:
                self._let_go(topic)
        for state in view.topics.values():
            await self._take_up(state)

    async def _take_up(self, state: TopicState) -> None:
        mine = [index for index, partition in enumerate(state.partitions) if self._node_id in partition.replicas]
        if not mine:
            return
        topic = self._topics.get(state.name) or HostedTopic(state.name, state.topic_id)
        config = self._log_config(state)
        missing = [index for index in mine if index not in topic.partitions]
        for index in mine:
            present = topic.partitions.get(index)
            if present is not None:
                if present.state != state.partitions[index]:
                    present.apply(state.partitions[index])
                if present.log.config != config:
                    present.log.update_config(config)
        if missing:
            logs = await asyncio.to_thread(self._open_logs, state, missing, config)
            for index, log in logs.items():
                topic.partitions[index] = Partition(
                    state.name,
                    index,
                    log,
                    node_id=self._node_id,
                    state=state.partitions[index],
                    request_flush=self._request_flush,
                )
        self._topics[state.name] = self._topics[state.topic_id.bytes] = topic

    def _open_logs(self, state: TopicState, indexes: list[int], config: LogConfig) -> dict[int, Log]:
        logs = {}
        for index in indexes:
            try:
                logs[index] = self._logs.create(state.name, index, topic_id=state.topic_id, config=config)
            except StorageError as error:
                logger.error("partition %s-%d is offline: %s", state.name, index, error)
        return logs

    def _let_go(self, topic: HostedTopic) -> None:
        del self._topics[topic.name]
        del self._topics[topic.topic_id.bytes]
        for index, partition in topic.partitions.items():
            partition.fail_waiters(UnknownTopicOrPartition(f"topic {topic.name!r} was deleted"))
            try:
                deleted = self._logs.delete(topic.name, index)
            except KafkaError as error:
                logger.error("cannot delete the log of %s-%d: %s", topic.name, index, error)
                continue
            if deleted is not None:
                self._remove_later(deleted, partition.log.config.file_delete_delay_ms)
