"""Which micro-batches of a query are written, kept where they are written to: the committed offset of a group named after the query.

Spark commits a micro-batch in three steps: its tasks write, the sink commits, the checkpoint says so. After a crash between the second and
the third, the query starts again with the same batch id and the same rows. So the sink's commit stores the id, as the offset of partition 0
of each topic that the batch wrote to, and every task asks for it before it writes: what is not above it is on the topics already.

A crash before the sink's commit is not recognised: the batch is written again, at least once. Kafka forgets the offsets of a group after
`offsets.retention.minutes` (a week); a query that rests longer between these two steps repeats that one batch.
"""

from typing import Any, Final

from penstock.client.cluster import Cluster
from penstock.client.errors import kafka_error
from penstock.client.request import MessageRequest
from penstock.client.topic_partition import TopicPartition
from penstock.spark.group_progress import LAST_WITH_TOPIC_NAMES, GroupProgress
from penstock.wire.api import ApiKey

NOTHING_WRITTEN: Final = -1


def group_of_query(query_id: str) -> str:
    """The name of the group that remembers what a query has written."""
    return f"penstock-sink-{query_id}"


class SinkProgress(GroupProgress):
    """The last micro-batch of one query that is written."""

    def __init__(self, cluster: Cluster, query_id: str, *, timeout_s: float) -> None:
        super().__init__(cluster, group_of_query(query_id), timeout_s=timeout_s)

    def remember(self, batch_id: int, topics: frozenset[str]) -> None:
        """The batch is written, to these topics."""
        self.commit({TopicPartition(topic, 0): batch_id for topic in topics})

    def last_written(self) -> int:
        """The id of the last batch that is written, or `NOTHING_WRITTEN`; asks again while the coordinator moves or loads."""
        return self._retry(self._fetch_once)

    def _fetch_once(self, coordinator: int) -> int:
        group = {"group_id": self._group_id, "member_id": None, "member_epoch": -1, "topics": None}
        fields = {"group_id": self._group_id, "topics": None, "groups": [group], "require_stable": False}
        request = MessageRequest(ApiKey.OFFSET_FETCH, fields, lowest=2, highest=LAST_WITH_TOPIC_NAMES)
        answer: Any = self._cluster.connection(coordinator).call(request)
        found = answer.groups[0] if hasattr(answer, "groups") else answer
        if found.error_code:
            raise kafka_error(int(found.error_code), f"asking what the group {self._group_id!r} has written failed")
        offsets = [int(partition.committed_offset) for topic in found.topics for partition in topic.partitions]
        return max(offsets, default=NOTHING_WRITTEN)
