"""Which partitions this process copies where several processes of one mirror share the work: what a consumer group at the source says.

A consumer of librdkafka is a member of the group, and nothing more: its partitions are paused, nothing is fetched or committed by it. It
subscribes to the topics that the mirror asks about. Who dies loses its partitions after the session timeout, who leaves at once. That two
processes copy a partition for a moment does no harm: the target refuses whoever expects another end of the log.

The group is not the one of the progress: that one has no members, so that any process may commit to it.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaException
from confluent_kafka import TopicPartition as AssignedPartition

from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.mirror.clusters.librdkafka import open_consumer
from millstream.mirror.group_names import members_of
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

SESSION_TIMEOUT_MS: Final = 6_000
"""The shortest that Kafka's brokers allow by default."""
_POLL_S: Final = 0.2
_PAUSE_S: Final = 1.0


class GroupShare:
    """The share of one process; a thread of its own keeps the membership, from `start` to `stop`."""

    def __init__(self, servers: str, *, group: str, on_change: Callable[[], object], security: ClientSecurity = NO_SECURITY) -> None:
        self._servers, self._security = servers, security
        self._group = members_of(group)
        self._on_change = on_change
        self._owned: frozenset[TopicPartition] = frozenset()
        self._topics: set[str] = set()
        self._is_stopping = threading.Event()
        self._first = self._open()
        """Opened at once: what is wrong with the settings is said before anything begins."""
        self._thread = threading.Thread(target=self._run, name="mirror-share", daemon=True)

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, so that others take over at once."""
        self._is_stopping.set()
        self._thread.join()

    def owns(self, partition: TopicPartition) -> bool:
        """Whether this process copies the partition; what is asked about is what the group shares."""
        self._topics.add(partition.topic)
        return partition in self._owned

    def _run(self) -> None:
        consumer = self._first
        while True:
            try:
                self._be_member(consumer)
            except KafkaException as error:
                logger.warning("the group that shares the work is joined anew: %s", error.args[0].str())
            self._change(frozenset())
            consumer.close()
            if self._is_stopping.wait(_PAUSE_S):
                return
            consumer = self._open()

    def _open(self) -> Consumer:
        settings = {
            "group.id": self._group,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 4,
            "topic.metadata.refresh.interval.ms": 3_000,
        }
        return open_consumer(self._servers, self._security, settings)

    def _be_member(self, consumer: Consumer) -> None:
        subscribed: set[str] = set()
        said = ""
        while not self._is_stopping.is_set():
            if self._topics != subscribed:
                subscribed = set(self._topics)
                consumer.subscribe(sorted(subscribed), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
            message = consumer.poll(_POLL_S)
            error = message.error() if message is not None else None
            if error is not None and error.str() != said:
                said = error.str()
                logger.warning("the group that shares the work, %s: %s; it is tried again", self._group, said)

    def _assigned(self, consumer: Consumer, partitions: list[AssignedPartition]) -> None:
        at_end = [AssignedPartition(each.topic, each.partition, OFFSET_END) for each in partitions]
        consumer.incremental_assign(at_end)
        consumer.pause(at_end)
        self._change(self._owned | _names(partitions))

    def _revoked(self, consumer: Consumer, partitions: list[AssignedPartition]) -> None:
        self._change(self._owned - _names(partitions))
        consumer.incremental_unassign(partitions)

    def _change(self, owned: frozenset[TopicPartition]) -> None:
        if owned != self._owned:
            logger.info("this process copies %d partition(s) now, %d before", len(owned), len(self._owned))
            self._owned = owned
            self._on_change()


def _names(partitions: list[AssignedPartition]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(each.topic, each.partition) for each in partitions)
