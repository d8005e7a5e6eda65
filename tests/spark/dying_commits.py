"""`format("dying-commits")`: the sink, whose driver's process is killed at a step of the commit that an option names.

Spark fails the query then; that its JVM goes on changes nothing, because nothing of the sink lives there.
"""

import os
import signal
from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from millstream.client.transactions import OpenTransaction, Transactions
from millstream.spark.data_source import MillstreamDataSource
from millstream.spark.exactly_once.driver import Driver
from millstream.spark.sink.sink_progress import SinkProgress, WrittenBatch
from millstream.spark.sink.writer import StreamWriter

STEPS: Final = (
    "before the decision",
    "in the decision",
    "after the decision",
    "between two EndTxns",
    "after all EndTxns",
    "before the checkpoint",
)
_OPTION: Final = "step"


def kill_this_process() -> None:
    """The end of this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: str, die: Callable[[], None] = kill_this_process) -> None:
    """Let this process die when it comes to that step."""
    remember, end = SinkProgress.remember, Transactions.end

    def remember_and_die(self: SinkProgress, batch: WrittenBatch, driver: Driver | None = None) -> None:
        if step == "before the decision":
            die()
        remember(self, batch, driver)
        if step == "after the decision" or not batch.transactions:
            die()

    def end_and_die(self: Transactions, transactions: Sequence[OpenTransaction], *, commit: bool) -> None:
        end(self, transactions[:1] if step == "between two EndTxns" else transactions, commit=commit)
        die()

    def commit_and_die(_self: Transactions, _opened: OpenTransaction) -> None:
        die()

    if step == "in the decision":
        Transactions.commit = commit_and_die  # type: ignore[method-assign,assignment]
    elif "EndTxns" in step:
        Transactions.end = end_and_die  # type: ignore[method-assign,assignment]
    else:
        SinkProgress.remember = remember_and_die  # type: ignore[method-assign]


class DyingWriter(StreamWriter):
    """Dies in its commit."""

    step: str

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        die_at(self.step)
        super().commit(messages, batchId)


class DyingCommits(MillstreamDataSource):
    """The data source with that writer."""

    @classmethod
    def name(cls) -> str:
        return "dying-commits"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 -- Spark's name
        writer = DyingWriter({name: value for name, value in self.options.items() if name != _OPTION}, schema)
        writer.step = self.options[_OPTION]
        return writer
