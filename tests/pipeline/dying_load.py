"""A load that is killed, with the whole of Spark, at a stage of its first micro-batch.

    python -m tests.pipeline.dying_load STAGE BOOTSTRAP REGISTRY TO CHECKPOINT TOPIC...

Stages, in the order in which a micro-batch passes them: `files` (a task has written its files), `commit` (the driver knows all files, none
is committed), `tables` (the first of two tables is committed), `dead letters` (all tables are committed), `report` (dead letters are
produced), `checkpoint` (all is done, and Spark's checkpoint does not know).
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from millstream.lake.load_batch import LoadBatch
from millstream.lake.load_table import LoadTable
from millstream.spark.jobs.load.commit import LoadCommitter
from millstream.spark.jobs.load.files_as_rows import LoadReader, LoadSource
from millstream.spark.jobs.load.load import start_load
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.task_result import TaskResult
from millstream.spark.session import start_session
from tests.spark.conftest import SPARK_OPTIONS

if TYPE_CHECKING:
    import pyarrow as pa

STAGES = ("files", "commit", "tables", "dead letters", "report", "checkpoint")
KILLED_AT = ("files", "tables", "checkpoint")
"""Where a test kills the whole of Spark, which takes long to start again; at the other stages it lets the query fail."""
DEAD_LETTERS = "dying-dead-letters"
STAGE = "MILLSTREAM_TESTSTAGE"
_GROUP = "MILLSTREAM_TEST_PROCESSES"


class Died(Exception):
    """Stands in for a kill."""


def die_at(stage: str) -> None:
    """The end of driver, JVM and workers, if this is the stage; in a test's own process, of the query."""
    if os.environ.get(STAGE) == stage:
        if _GROUP not in os.environ:
            raise Died(stage)
        os.killpg(int(os.environ[_GROUP]), signal.SIGKILL)


class DyingReader(LoadReader):
    """Dies in a task."""

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        written = list(super().read(partition))
        die_at("files")
        yield from written


class DyingSource(LoadSource):
    """The source with that reader."""

    reader_class = DyingReader

    @classmethod
    def name(cls) -> str:
        return "dying-load"


class DyingCommitter(LoadCommitter):
    """Dies on the driver."""

    def commit(self, results: Sequence[TaskResult], batches: Mapping[str, LoadBatch]) -> None:
        die_at("commit")
        super().commit(results, batches)

    def commit_table(self, table: LoadTable, batch: LoadBatch, schema: "pa.Schema") -> None:
        super().commit_table(table, batch, schema)
        die_at("tables")

    def send_dead_letters(self, results: Sequence[TaskResult]) -> None:
        die_at("dead letters")
        super().send_dead_letters(results)

    def report(self, query_id: str, batch_id: int, batches: Mapping[str, LoadBatch]) -> None:
        die_at("report")
        super().report(query_id, batch_id, batches)
        die_at("checkpoint")


def dying_settings(brokers: str, registry: str, to: str, checkpoint: str, *topics: str) -> LoadSettings:
    """The load that is killed, and the one that goes on after it."""
    return LoadSettings(
        brokers=brokers, topics=topics, to=to, checkpoint=checkpoint, value_format="avro", registry=registry, once=True, batch_messages=40,
        audit="lake", dead_letters=DEAD_LETTERS,
    )  # fmt: skip


def main(stage: str, *places: str) -> None:
    """Load until the end comes."""
    os.environ |= {STAGE: stage, _GROUP: str(os.getpgrp())}
    session = start_session("dying-load", master="local[2]", options=SPARK_OPTIONS)
    query = start_load(session, dying_settings(*places), source=DyingSource, committer=DyingCommitter)
    query.awaitTermination(300)


if __name__ == "__main__":
    main(*sys.argv[1:])
