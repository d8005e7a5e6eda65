"""A query that writes exactly once, without Spark around it: its tasks and commits are calls, and it dies where a test says.

What is left when it dies is what a killed process leaves: open transactions, and what was remembered. Whoever goes on (`revived`) begins
with neither connections nor memories of its own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from millstream.client.admin.transaction_admin import TransactionAdmin
from millstream.client.cluster import Cluster
from millstream.client.transactions import OpenTransaction, Transactions
from millstream.spark import worker_connections
from millstream.spark.sink.sink_progress import SinkProgress, WrittenBatch, transaction_pool
from millstream.spark.sink.writer import BatchWritten, StreamWriter
from tests.brokers import Broker
from tests.spark.dying_commits import die_at
from tests.spark.read_back import read_committed
from tests.topics import fresh_name
from tests.waiting import wait_until

ROWS = pa.schema([("key", pa.string()), ("value", pa.string())])


class Died(BaseException):
    """The process was killed."""


class TaskContext:
    """What Spark says to a task."""

    def __init__(self, query_id: str, batch_id: int, *, task: int, attempt: int) -> None:
        self._properties = {"sql.streaming.queryId": query_id, "streaming.sql.batchId": str(batch_id)}
        self._task = task
        self._attempt = attempt

    def get(self) -> "TaskContext":
        return self

    def getLocalProperty(self, name: str) -> str:  # noqa: N802 -- Spark's name
        return self._properties[name]

    def partitionId(self) -> int:  # noqa: N802 -- Spark's name
        return self._task

    def attemptNumber(self) -> int:  # noqa: N802 -- Spark's name
        return self._attempt


class TransactionalQuery:
    """One query onto one topic."""

    def __init__(self, broker: Broker, topic: str, **options: object) -> None:
        self.broker = broker
        self.topic = topic
        self.query_id = fresh_name("query")
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, "delivery.guarantee": "exactly-once"}
        self.options = given | {name.replace("_", "."): str(value) for name, value in options.items()}

    @property
    def writer(self) -> StreamWriter:
        """Spark makes a new one for each micro-batch and each commit."""
        return StreamWriter(self.options, from_arrow_schema(ROWS))

    def write(self, batch_id: int, task: int, numbers: Sequence[int], *, attempt: int = 0) -> BatchWritten:
        """One attempt of a task."""
        texts = [str(number) for number in numbers]
        context = TaskContext(self.query_id, batch_id, task=task, attempt=attempt)
        with patch("millstream.spark.sink.writer.TaskContext", context):
            return self.writer.write(iter(pa.table({"key": texts, "value": texts}, schema=ROWS).to_batches(max_chunksize=100)))

    def run(self, batch_id: int, *tasks: Sequence[int]) -> None:
        """A whole micro-batch."""
        written = [self.write(batch_id, task, numbers) for task, numbers in enumerate(tasks)]
        self.writer.commit(written, batch_id)

    def remembered(self) -> WrittenBatch | None:
        """What the brokers remember of it."""
        with Cluster(self.broker.bootstrap_servers) as cluster:
            return SinkProgress(cluster, self.query_id, self.topic, timeout_s=30).last_written()

    def remembered_transactions(self) -> tuple[OpenTransaction, ...]:
        """Those of a decision that is not carried out."""
        remembered = self.remembered()
        return remembered.transactions if remembered is not None else ()

    def remember(self, batch: WrittenBatch) -> None:
        """Let the brokers remember something."""
        with Cluster(self.broker.bootstrap_servers) as cluster:
            SinkProgress(cluster, self.query_id, self.topic, timeout_s=30).remember(batch)

    def open_ids(self) -> list[str]:
        """Its transactions under way."""
        pool = transaction_pool(self.query_id, self.topic)
        with Cluster(self.broker.bootstrap_servers) as cluster:
            return sorted(name for name in TransactionAdmin(cluster, timeout_s=30).open_ids() if pool.place_of(name) is not None)

    def await_committed(self, numbers: Sequence[int]) -> None:
        """Wait until readers see exactly these; markers follow the coordinator's answer a moment later."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = sorted(int(message.value or b"") for message in read_committed(self.broker, self.topic))
            return len(found) >= len(numbers)

        wait_until(is_there, f"{len(numbers)} committed rows", deadline_s=60)
        assert found == sorted(numbers)


def revive() -> None:
    """Begin as a new process does, without connections."""
    worker_connections._close_all()
    worker_connections._forget_all()


@contextmanager
def dying(step: str) -> Iterator[None]:
    """Die at a step of the next commit."""

    def die() -> None:
        raise Died

    with (
        patch.object(SinkProgress, "remember", SinkProgress.remember),
        patch.object(Transactions, "end", Transactions.end),
        patch.object(Transactions, "commit", Transactions.commit),
    ):
        die_at(step, die)
        try:
            yield
        except Died:
            revive()
            return
    raise AssertionError(f"it did not come to this: {step}")
