"""The batch sink: `df.write.format("millstream").mode("append")`, and `INSERT INTO` of SQL.

Spark makes one writer on the driver, and unpickled copies of it write the rows of each task. Rows of a task that failed stay where they
are, and its next attempt writes them again: at least once, as with Spark's own sink.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from millstream.spark.options import OptionError
from millstream.spark.sink.write_plan import plan_write

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """What one task has written."""

    row_count: int


class MillstreamWriter(DataSourceArrowWriter):
    """Writes rows to topics."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("mode", "a topic cannot be overwritten, only appended to: write with mode append")
        self._plan = plan_write(options, schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> RowsWritten:
        """Write the rows of one task."""
        from millstream.spark.sink.task_writer import write_rows  # brings numba along, which the driver does not need

        return RowsWritten(write_rows(self._plan, iterator).row_count)
