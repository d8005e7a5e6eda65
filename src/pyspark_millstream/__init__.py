"""Registers `format("millstream")` with Spark, which imports every top-level module called `pyspark_*` and takes its `DefaultSource`.

Nothing else: the source and the sink are in `millstream.spark`.
"""

from millstream.spark.data_source import MillstreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
