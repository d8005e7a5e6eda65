"""The work of a task: its ranges of offsets, read one after the other and built into rows.

Only tasks import this: numba and Arrow take a second, and the processes that plan queries need neither.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from millstream.arrow.columns import Field
from millstream.arrow.field_decoding import FieldFormat, make_format
from millstream.arrow.kernels.compiled import warn_if_slow
from millstream.arrow.partition_reader import PartitionReader
from millstream.arrow.row_builder import RowBuilder
from millstream.spark.source.offset_ranges import TaskRanges
from millstream.spark.source.read_options import ReadOptions
from millstream.spark.source.read_plan import ReadPlan
from millstream.spark.worker_connections import cluster_for

if TYPE_CHECKING:
    import pyarrow as pa

_FIELDS: Final[tuple[Field, ...]] = ("key", "value")


def read_rows(options: ReadOptions, plan: ReadPlan, schema: StructType, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    """The rows of a task. Spark makes up an empty partition for a read that has none."""
    if type(partition) is InputPartition:
        return
    assert isinstance(partition, TaskRanges), "driver and worker have the same millstream"
    warn_if_slow()
    columns = to_arrow_schema(schema, timezone="UTC")
    formats = _formats(plan, columns)
    for offsets in partition.ranges:
        builder = RowBuilder(columns, offsets.place, formats=formats, mode=plan.mode)
        for records in PartitionReader(cluster_for(options), options, offsets, wanted=builder.wanted).read():
            yield builder.build(records)


def _formats(plan: ReadPlan, columns: "pa.Schema") -> dict[Field, FieldFormat]:
    formats: dict[Field, FieldFormat] = {}
    for name in _FIELDS:
        if name in columns.names:
            field, kind = plan.field(name), columns.field(name).type
            formats[name] = make_format(field.options.format, kind, schemas=field.avro, registry=plan.registry)
    return formats
