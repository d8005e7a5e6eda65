"""Which micro-batch of a query was written last, kept where it was written to: the committed offset of a group for query and target.

Spark commits a micro-batch in three steps: its tasks write, the sink commits, the checkpoint says so. After a crash between the second and
the third, the query starts again with the same batch id and the same rows. So the sink's commit stores the id, as the offset of partition 0
of each topic that the batch wrote to, and beside it, in the metadata of the offset, what was written:

    {"turn": 7, "rows": 1200, "digest": "89935d8f9d1b657e"}

The turn counts the commits: of several topics that remember different batches, the one with the highest turn remembers the last. The digest
is that of `row_digest`, over all rows of the batch.

A query that takes part in the audit also remembers the tier, and the batch that it reported first under that name, and counts from there:

    {..., "run": "writer/0-5f1c07ee19d1b657", "report": 3}

Another run begins if that is not remembered: the audit was switched on later, or Kafka has forgotten the group.

Spark replays only its newest micro-batch. So one with the id that is remembered is a replay, if its rows are those that are remembered; one
below it comes from a checkpoint that was rolled back or copied, and its rows are new ones for all we know: it is written, and remembered.

A crash before the sink's commit is not recognised: the batch is written again, at least once. Kafka forgets the offsets of a group after
`offsets.retention.minutes` (a week); a query that rests longer between these two steps repeats that one batch.
"""

import json
from typing import NamedTuple

from millstream.batch_memory import batch_memory_of
from millstream.client.cluster import Cluster
from millstream.spark.group_progress import CommittedOffset, GroupProgress
from millstream.topic_partition import TopicPartition


class WrittenBatch(NamedTuple):
    """A micro-batch as it was written."""

    batch_id: int
    row_count: int
    digest: int
    topics: frozenset[str]
    turn: int = 0
    run: str = ""
    """Which reports are numbered together; empty if there are none."""
    report: int = 0
    """The number of this batch's report."""

    def after(self, remembered: "WrittenBatch | None", *, tier: str | None) -> "WrittenBatch":
        """This batch with its turn, and with the number of its report if it has a tier of the audit."""
        batch = self._replace(turn=remembered.turn + 1 if remembered is not None else 0)
        if tier is None:
            return batch
        if remembered is not None and remembered.run.startswith(f"{tier}/"):
            return batch._replace(run=remembered.run, report=remembered.report + 1)
        return batch._replace(run=f"{tier}/{self.batch_id}-{self.digest:016x}", report=0)

    def metadata(self) -> str:
        """What stands beside the offset."""
        run = {"run": self.run, "report": self.report} if self.run else {}
        return json.dumps({"turn": self.turn, "rows": self.row_count, "digest": f"{self.digest:016x}", **run})


class SinkProgress:
    """The last micro-batch that one query has written to its target."""

    def __init__(self, cluster: Cluster, query_id: str, topic: str | None, *, timeout_s: float) -> None:
        self._group = GroupProgress(cluster, batch_memory_of(query_id, topic), timeout_s=timeout_s)

    def remember(self, batch: WrittenBatch) -> None:
        """The batch is written."""
        self._group.commit({TopicPartition(topic, 0): batch.batch_id for topic in batch.topics}, metadata=batch.metadata())

    def last_written(self) -> WrittenBatch | None:
        """The batch that was written last, if one is remembered."""
        remembered = [_read(place.topic, committed) for place, committed in self._group.committed().items()]
        batches = [batch for batch in remembered if batch is not None]
        if not batches:
            return None
        last = max(batches, key=lambda batch: batch.turn)
        topics = frozenset[str]().union(*(batch.topics for batch in batches if batch.turn == last.turn))
        return last._replace(topics=topics)


def _read(topic: str, committed: CommittedOffset) -> WrittenBatch | None:
    """What one offset remembers; nothing if it is not one of ours, because the group was set to another."""
    try:
        fields = json.loads(committed.metadata)
        rows, digest, turn = int(fields["rows"]), int(fields["digest"], 16), int(fields["turn"])
        run, report = str(fields.get("run", "")), int(fields.get("report", 0))
    except (ValueError, TypeError, KeyError):
        return None
    return WrittenBatch(committed.offset, rows, digest, frozenset({topic}), turn, run, report)
