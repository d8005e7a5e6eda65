"""`spark.read`: the offsets of a batch are fixed when it is planned, on the driver, and read by tasks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from millstream.offset import EARLIEST, LATEST
from millstream.spark.positions import AtEdge
from millstream.spark.source.offset_ranges import OffsetRange, split_ranges
from millstream.spark.source.read_options import ReadOptions
from millstream.spark.source.read_plan import ReadPlan
from millstream.spark.source.source_offsets import SourceOffsets
from millstream.spark.worker_connections import cluster_for

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads what lies between two positions."""

    def __init__(self, options: ReadOptions, plan: ReadPlan, schema: StructType) -> None:
        self._options = options
        self._plan = plan
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One task per partition, or as many as the options ask for."""
        options = self._options
        offsets = SourceOffsets(cluster_for(options), options)
        places = offsets.partitions()
        start = offsets.starting(options.starting or AtEdge(EARLIEST), places)
        end = offsets.ending(options.ending or AtEdge(LATEST), places)
        for place in places:
            if start[place] > end[place]:
                options.report_data_loss(f"{place} is to be read from offset {start[place]} up to {end[place]}, which is before it")
        ranges = [OffsetRange(place, start[place], end[place]) for place in places]
        return list(split_ranges(ranges, at_least=options.min_partitions, at_most_records=options.max_records_per_partition))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        from millstream.spark.source.partition_reader import read_rows  # the planning process never gets here, and does not wait for numba

        return read_rows(self._options, self._plan, self._schema, partition)
