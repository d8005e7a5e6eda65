"""A windows job that is killed, with the whole of Spark, between its outputs.

    python -m tests.pipeline.dying_windows STAGE FILE.toml

Stages, in the order in which a micro-batch passes them: `topic` (the results are on the topic, and not in the table), `table` (they are in
both, and Spark's checkpoint does not know).
"""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.spark.jobs.description.job_file import read_job_of
from millstream.spark.jobs.description.windows_job import WindowsJob
from millstream.spark.jobs.streams.results import BatchWriter
from millstream.spark.jobs.streams.windows import start_windows
from millstream.spark.session import start_session
from tests.spark.conftest import SPARK_OPTIONS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

STAGE = "MILLSTREAM_TEST_STAGE"


class DyingWriter(BatchWriter):
    """Takes driver, JVM and workers with it."""

    def write_topic(self, messages: "DataFrame") -> None:
        super().write_topic(messages)
        die_at("topic")

    def write_table(self, rows: "pa.Table", query_id: str, batch_id: int) -> None:
        super().write_table(rows, query_id, batch_id)
        die_at("table")


def die_at(stage: str) -> None:
    """The end, if this is the stage."""
    if os.environ[STAGE] == stage:
        os.killpg(os.getpgrp(), signal.SIGKILL)


def main(stage: str, file: str) -> None:
    """Run until the end comes."""
    os.environ[STAGE] = stage
    session = start_session("dying-windows", master="local[2]", options=SPARK_OPTIONS)
    query = start_windows(session, read_job_of(WindowsJob, Path(file)), is_final=True, writer=DyingWriter)
    query.awaitTermination(300)


if __name__ == "__main__":
    main(*sys.argv[1:])
