"""Which topics a merging mirror copies, and that the target has them, with at least as many partitions."""

import logging
from typing import Any, Final

from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka.cimpl import NewPartitions, NewTopic

from millstream.errors import UsageError
from millstream.mirror.clusters.librdkafka import LibrdkafkaFailed, open_admin, plain_errors
from millstream.mirror.merging.merge_settings import MergeSettings

logger = logging.getLogger(__name__)

_TIMEOUT_S: Final = 20.0
_DEFAULT_REPLICAS: Final = -1


class MergedTopics:
    """The topics, as they were at the last look."""

    def __init__(self, settings: MergeSettings) -> None:
        self._settings = settings
        self._source = open_admin(settings.source, settings.source_security)
        self._target = open_admin(settings.target, settings.target_security)
        self.source_cluster = self.target_cluster = ""
        self.names: set[str] = set()
        """Topics of the source that can be copied: the target has them."""
        self.partitions: list[tuple[str, int]] = []
        self._made: dict[str, int] = {}
        """Partitions of topics that this process made: brokers learn of them a little later."""
        self.refused: dict[str, str] = {}
        """Topics that the target does not take, and why."""

    def look(self) -> bool:
        """Ask both sides; whether the topics or their partitions are others than before."""
        with plain_errors(self._settings.source):
            source: Any = self._source.list_topics(timeout=_TIMEOUT_S)
        with plain_errors(self._settings.target):
            target: Any = self._target.list_topics(timeout=_TIMEOUT_S)
        self.source_cluster, self.target_cluster = source.cluster_id, target.cluster_id
        if self.source_cluster == self.target_cluster and not self._settings.prefix:
            raise UsageError(f"{self._settings.source} and {self._settings.target} are the same cluster: merging in it needs a --prefix")
        counts = {name: len(topic.partitions) for name, topic in source.topics.items() if topic.error is None and self._takes(name)}
        present = {name: len(topic.partitions) for name, topic in target.topics.items() if topic.error is None}
        ready = {name: count for name, count in counts.items() if self._make(name, count, present)}
        partitions = sorted((name, index) for name, count in ready.items() for index in range(count))
        has_changed = partitions != self.partitions
        self.names, self.partitions = set(ready), partitions
        return has_changed

    def _takes(self, name: str) -> bool:
        # Within one cluster what was merged already begins with the prefix: it is not merged again.
        is_merged = self.source_cluster == self.target_cluster and name.startswith(self._settings.prefix)
        return self._settings.takes(name) and not is_merged

    def _make(self, name: str, count: int, present: dict[str, int]) -> bool:
        """Whether the target has the topic with so many partitions, after it was made if it has not."""
        topic = self._settings.target_topic(name)
        if max(present.get(topic, 0), self._made.get(topic, 0)) >= count:
            self.refused.pop(name, None)
            return True
        if topic in present:
            futures = self._target.create_partitions([NewPartitions(topic, count)])
        else:
            futures = self._target.create_topics([NewTopic(topic, count, _DEFAULT_REPLICAS)])
        try:
            with plain_errors(self._settings.target):
                futures[topic].result(_TIMEOUT_S)
        except LibrdkafkaFailed as error:
            if error.code != LibrdkafkaError.TOPIC_ALREADY_EXISTS:
                if self.refused.get(name) != str(error):
                    logger.error("the topic %s is not merged: %s", name, error)
                self.refused[name] = str(error)
            return False  # The next look says whether another process was quicker.
        self._made[topic] = count
        return True
