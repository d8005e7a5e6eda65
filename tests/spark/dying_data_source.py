"""`format("millstream")` that ends Spark without warning at a chosen stage of a micro-batch: before, between and after its commits.

Stages: `rows` (a task has written, the sink has not committed), `checkpoint` (the sink has committed, the checkpoint does not know), and
the steps of an exactly-once commit (`dying_commits`).
"""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from millstream.spark.data_source import MillstreamDataSource
from millstream.spark.sink.writer import BatchWritten, StreamWriter
from tests.spark.dying_commits import STEPS, die_at, kill_this_process

if TYPE_CHECKING:
    import pyarrow as pa

STAGE = "MILLSTREAM_TEST_STAGE"
JVM_FILE = "MILLSTREAM_TEST_JVM"


class DyingWriter(StreamWriter):
    """Kills the JVM, and with it the query, at the stage that the environment names."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> BatchWritten:
        written = super().write(iterator)
        if os.environ[STAGE] == "rows" and written.row_count:
            _end_spark()
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        if os.environ[STAGE] in STEPS:
            die_at(os.environ[STAGE], _end_all)
        super().commit(messages, batchId)
        _end_spark()


class DyingDataSource(MillstreamDataSource):
    """The data source with that writer."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 -- Spark's name
        return DyingWriter(self.options, schema)


def _end_all() -> None:
    _end_spark()
    kill_this_process()


def _end_spark() -> None:
    os.kill(int(Path(os.environ[JVM_FILE]).read_text()), signal.SIGKILL)
