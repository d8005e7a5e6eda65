"""Which micro-batch of a query was written last, kept where it was written to: the committed offset of a group for query and target.

Spark commits a micro-batch in three steps: its tasks write, the sink commits, the checkpoint says so. After a crash between the second and
the third, the query starts again with the same batch id and the same rows. So the sink's commit stores the id, as the offset of partition 0
of each topic that the batch wrote to, and beside it, in the metadata of the offset, what was written:

    {"turn": 7, "rows": 1200, "digest": "89935d8f9d1b657e"}

The turn counts the commits: of several topics that remember different batches, the one with the highest turn remembers the last. The digest
is that of `row_digest`, over all rows of the batch.

Spark replays only its newest micro-batch. So one with the id that is remembered is a replay, if its rows are those that are remembered; one
below it comes from a checkpoint that was rolled back or copied, and its rows are new ones for all we know: it is written, and remembered.

A crash before the sink's commit is not recognised: the batch is written again, at least once. Kafka forgets the offsets of a group after
`offsets.retention.minutes` (a week); a query that rests longer between these two steps repeats that one batch.
"""

import json
from typing import Any, NamedTuple

from millstream.client.cluster import Cluster
from millstream.client.errors import kafka_error
from millstream.client.request import MessageRequest
from millstream.spark.group_progress import LAST_WITH_TOPIC_NAMES, GroupProgress
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey


class WrittenBatch(NamedTuple):
    """A micro-batch as it was written."""

    batch_id: int
    row_count: int
    digest: int
    topics: frozenset[str]
    turn: int = 0

    def metadata(self) -> str:
        """What stands beside the offset."""
        return json.dumps({"turn": self.turn, "rows": self.row_count, "digest": f"{self.digest:016x}"})


def group_of_query(query_id: str, topic: str | None) -> str:
    """The name of the group that remembers what a query has written to a topic, or (None) to those that its rows name."""
    return f"millstream-sink-{query_id}" if topic is None else f"millstream-sink-{query_id}-{topic}"


class SinkProgress(GroupProgress):
    """The last micro-batch that one query has written to its target."""

    def __init__(self, cluster: Cluster, query_id: str, topic: str | None, *, timeout_s: float) -> None:
        super().__init__(cluster, group_of_query(query_id, topic), timeout_s=timeout_s)

    def remember(self, batch: WrittenBatch) -> None:
        """The batch is written."""
        self.commit({TopicPartition(topic, 0): batch.batch_id for topic in batch.topics}, metadata=batch.metadata())

    def last_written(self) -> WrittenBatch | None:
        """The batch that was written last, if one is remembered; asks again while the coordinator moves or loads."""
        return self._retry(self._fetch_once)

    def _fetch_once(self, coordinator: int) -> WrittenBatch | None:
        group = {"group_id": self._group_id, "member_id": None, "member_epoch": -1, "topics": None}
        fields = {"group_id": self._group_id, "topics": None, "groups": [group], "require_stable": False}
        request: MessageRequest[Any] = MessageRequest(ApiKey.OFFSET_FETCH, fields, lowest=2, highest=LAST_WITH_TOPIC_NAMES)
        answer: Any = self._cluster.connection(coordinator).call(request)
        found = answer.groups[0] if answer.groups else answer
        if found.error_code:
            raise kafka_error(int(found.error_code), f"asking what the group {self._group_id!r} has written failed")
        remembered = [_read(topic.name, partition) for topic in found.topics for partition in topic.partitions]
        return _last([batch for batch in remembered if batch is not None])


def _read(topic: str, partition: Any) -> WrittenBatch | None:
    """What one offset remembers; nothing if it is not one of ours, because somebody moved the group to another."""
    try:
        told = json.loads(partition.metadata or "")
        rows, digest, turn = int(told["rows"]), int(told["digest"], 16), int(told["turn"])
    except (ValueError, TypeError, KeyError):
        return None
    return WrittenBatch(int(partition.committed_offset), rows, digest, frozenset({topic}), turn)


def _last(remembered: list[WrittenBatch]) -> WrittenBatch | None:
    if not remembered:
        return None
    last = max(remembered, key=lambda batch: batch.turn)
    topics = frozenset[str]().union(*(batch.topics for batch in remembered if batch.turn == last.turn))
    return last._replace(topics=topics)
