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

A query that writes exactly once also remembers the transactions of the batch (`exactly_once.decision`), before any of them is committed:

    {..., "transactions": "c-pmB..."}

Then the offset is the decision, and it is committed in a transaction of the driver (`exactly_once.driver`): it is there whole or not at
all, and a former driver cannot store its own over it. When all are committed the batch is remembered once more in the same way, without
them.

Spark replays only its newest micro-batch. So one with the id that is remembered is a replay, if its rows are those that are remembered; one
below it comes from a checkpoint that was rolled back or copied, and its rows are new ones for all we know: it is written, and remembered.

A crash before the sink's commit is not recognised: the batch is written again, at least once. Kafka forgets the offsets of a group after
`offsets.retention.minutes` (a week); a query that rests longer between these two steps repeats that one batch.
"""

import json
from typing import NamedTuple

from millstream.batch_memory import batch_memory_of
from millstream.client.cluster import Cluster
from millstream.client.transactions import OpenTransaction
from millstream.errors import InvalidCommitOffsetSize, OffsetMetadataTooLarge
from millstream.spark.exactly_once.decision import read_transactions, write_transactions
from millstream.spark.exactly_once.driver import Driver
from millstream.spark.exactly_once.transaction_pool import TransactionPool
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
    transactions: tuple[OpenTransaction, ...] = ()
    """Those that its rows are in; then this is the decision to commit them."""

    def after(self, remembered: "WrittenBatch | None", *, tier: str | None) -> "WrittenBatch":
        """This batch with its turn, and with the number of its report if it has a tier of the audit."""
        batch = self._replace(turn=remembered.turn + 1 if remembered is not None else 0)
        if tier is None:
            return batch
        if remembered is not None and remembered.run.startswith(f"{tier}/"):
            return batch._replace(run=remembered.run, report=remembered.report + 1)
        return batch._replace(run=f"{tier}/{self.batch_id}-{self.digest:016x}", report=0)

    def is_same(self, other: "WrittenBatch | None") -> bool:
        """Whether this is the same micro-batch of the same turn, committed or not yet."""
        return other is not None and (self.turn, *self[:3]) == (other.turn, *other[:3])

    def metadata(self) -> str:
        """What stands beside the offset."""
        fields: dict[str, object] = {"turn": self.turn, "rows": self.row_count, "digest": f"{self.digest:016x}"}
        if self.run:
            fields |= {"run": self.run, "report": self.report}
        if self.transactions:
            fields["transactions"] = write_transactions(self.transactions, TransactionPool.of(self.transactions[0].transactional_id))
        return json.dumps(fields)


class SinkProgress:
    """The last micro-batch that one query has written to its target."""

    def __init__(self, cluster: Cluster, query_id: str, topic: str | None, *, timeout_s: float) -> None:
        self._pool = transaction_pool(query_id, topic)
        self._topic = topic
        self._timeout_s = timeout_s
        self._group_id = batch_memory_of(query_id, topic)
        self._group = GroupProgress(cluster, self._group_id, timeout_s=timeout_s)

    def remember(self, batch: WrittenBatch, driver: Driver | None = None) -> None:
        """The batch is written; with a driver it is stored only as long as no other has taken over."""
        offsets, metadata = {TopicPartition(topic, 0): batch.batch_id for topic in batch.topics}, batch.metadata()
        try:
            if driver is None:
                self._group.commit(offsets, metadata=metadata)
            else:
                driver.store(self._group_id, lambda opened: self._group.commit_in(opened, offsets, metadata=metadata))
        except (OffsetMetadataTooLarge, InvalidCommitOffsetSize):
            if not batch.transactions:
                raise
            raise OffsetMetadataTooLarge(
                f"the micro-batch {batch.batch_id} was written by {len(batch.transactions)} tasks, and what the brokers remember of it (at "
                "most offset.metadata.max.bytes) has no room for so many transactions, so nothing of it is committed: let fewer tasks "
                "write (coalesce), or raise that option of the brokers"
            ) from None

    def last_written(self, *, patience_s: float | None = None) -> WrittenBatch | None:
        """The batch that was written last, if one is remembered; waits as long for one that is being stored."""
        found = self._group.committed(self._topic, patience_s=self._timeout_s if patience_s is None else patience_s)
        remembered = [_read(place.topic, committed, self._pool) for place, committed in found.items()]
        batches = [batch for batch in remembered if batch is not None]
        if not batches:
            return None
        last = max(batches, key=lambda batch: batch.turn)
        topics = frozenset[str]().union(*(batch.topics for batch in batches if batch.turn == last.turn))
        return last._replace(topics=topics)


def transaction_pool(query_id: str, topic: str | None) -> TransactionPool:
    """The transactional ids of a query: they are named like its group."""
    return TransactionPool(batch_memory_of(query_id, topic))


def _read(topic: str, committed: CommittedOffset, pool: TransactionPool) -> WrittenBatch | None:
    """What one offset remembers; nothing if it is not one of ours, because the group was set to another."""
    try:
        fields = json.loads(committed.metadata)
        rows, digest, turn = int(fields["rows"]), int(fields["digest"], 16), int(fields["turn"])
        run, report = str(fields.get("run", "")), int(fields.get("report", 0))
        transactions = read_transactions(fields["transactions"], pool) if "transactions" in fields else ()
    except (ValueError, TypeError, KeyError):
        return None
    return WrittenBatch(committed.offset, rows, digest, frozenset({topic}), turn, run, report, transactions)
