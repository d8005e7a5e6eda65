"""What travels from the driver to a task: the slice it reads."""

from pyspark.sql.datasource import InputPartition

from millstream.spark.source.planning import Slice


class SlicePartition(InputPartition):
    """One task's share of a read."""

    def __init__(self, slice_: Slice) -> None:
        super().__init__(tuple(slice_))
        self.slice = slice_
