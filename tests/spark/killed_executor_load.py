"""A load on a cluster, one of whose executors is killed when its first task has written its files.

    spark-submit killed_executor_load.py BOOTSTRAP TOPIC LAKE CHECKPOINT

Everything is in this file: executors get it by value, with the job.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from millstream.spark.jobs.load.files_as_rows import LoadReader, LoadSource
from millstream.spark.jobs.load.load import start_load
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.running.job_session import start_job_session

if TYPE_CHECKING:
    import pyarrow as pa


class FatalReader(LoadReader):
    """The first task to get there kills the JVM that runs it."""

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Write the files of a task."""
        written = list(super().read(partition))
        try:
            Path(self._settings.checkpoint, "killed").touch(exist_ok=False)
        except FileExistsError:
            yield from written
            return
        # Workers are children of a daemon of PySpark's, and that is a child of the executor.
        executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(executor), signal.SIGKILL)


class FatalSource(LoadSource):
    """The source with that reader."""

    reader_class = FatalReader

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "fatal-load"


def main(brokers: str, topic: str, lake: str, checkpoint: str) -> None:
    """Load what is there."""
    settings = LoadSettings(brokers=brokers, topics=(topic,), to=lake, checkpoint=checkpoint, value_format="string", once=True)
    start_load(start_job_session("load"), settings, source=FatalSource).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
