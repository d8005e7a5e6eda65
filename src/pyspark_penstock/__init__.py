"""Registers `format("penstock")` with Spark, which imports every top-level module called `pyspark_*` and takes its `DefaultSource`.

Nothing else: the source and the sink are in `penstock.spark`.
"""

from penstock.spark.data_source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
