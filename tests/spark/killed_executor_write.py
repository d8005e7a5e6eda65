"""A write, exactly once, on a cluster, one of whose executors is killed when its first task has written its rows.

    spark-submit killed_executor_write.py BOOTSTRAP TOPIC ROWS MARK

Everything is in this file: executors get it by value, with the job. The file MARK says that it has happened.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import StructType

from millstream.spark.data_source import MillstreamDataSource
from millstream.spark.sink.writer import BatchWriter, RowsWritten

if TYPE_CHECKING:
    import pyarrow as pa


class FatalWriter(BatchWriter):
    """The first task to have written its rows kills the JVM that runs it."""

    mark: str

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> RowsWritten:
        """Write the rows of a task."""
        written = super().write(iterator)
        try:
            Path(self.mark).touch(exist_ok=False)
        except FileExistsError:
            return written
        # Workers are children of a daemon of PySpark's, and that is a child of the executor.
        executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(executor), signal.SIGKILL)
        return written


class FatalSink(MillstreamDataSource):
    """The data source with that writer."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "fatal-sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        writer = FatalWriter({name: value for name, value in self.options.items() if name != "mark"}, schema, overwrite=overwrite)
        writer.mark = self.options["mark"]
        return writer


def main(brokers: str, topic: str, rows: str, mark: str) -> None:
    """Write the numbers."""
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(FatalSink)
    numbers = spark.range(0, int(rows), 1, 4).selectExpr("cast(id as string) as value")
    writer = numbers.write.format("fatal-sink").mode("append").option("kafka.bootstrap.servers", brokers).option("mark", mark)
    writer.option("topic", topic).option("delivery.guarantee", "exactly-once").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
