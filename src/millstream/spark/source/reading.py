"""The work of a task: the rows of its slice.

Only tasks import this: numba and Arrow take a second, and the processes that plan queries need neither.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from millstream.spark.kernels.compiled import tell_if_slow
from millstream.spark.source.read_options import ReadOptions
from millstream.spark.source.read_plan import ReadPlan
from millstream.spark.source.row_builder import RowBuilder
from millstream.spark.source.slice_partition import SlicePartition
from millstream.spark.source.slice_reader import SliceReader
from millstream.spark.worker_connections import cluster_for

if TYPE_CHECKING:
    import pyarrow as pa


def read_rows(options: ReadOptions, plan: ReadPlan, schema: StructType, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    """The rows of a task. Spark makes up an empty task for a read that has none."""
    if partition.value is None:
        return
    assert isinstance(partition, SlicePartition), "driver and worker have the same millstream"
    tell_if_slow()
    builder = RowBuilder(plan, schema, partition.slice.place)
    for records in SliceReader(cluster_for(options), options, partition.slice, wanted=builder.wanted).read():
        yield builder.build(records)
