"""`format("millstream")`: what Spark asks for a schema, for readers and for writers.

Spark makes one of these per `load()` or `save()`, in a Python process beside the driver, asks it for its schema, and then pickles it: the
copies make the readers and writers, on the driver and for every task. So whatever must be the same for the whole query (the Avro schemas it
reads with) is looked up once, in `schema`, and travels inside. Everything heavy is imported by the method that needs it.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from millstream.spark.source.read_options import ReadOptions
    from millstream.spark.source.read_plan import ReadPlan


class MillstreamDataSource(DataSource):
    """Topics of Millstream or Apache Kafka as tables and streams.

    The options are those of `format("kafka")`, and those that docs/spark.md lists besides:

        spark.readStream.format("millstream").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "page-views").load()
    """

    _read_plan: "ReadPlan | None" = None

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "millstream"

    def schema(self) -> StructType | str:
        """The columns of a read."""
        from millstream.spark.source.read_plan import make_schema

        options, plan = self._prepare_read()
        return make_schema(options, plan)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from millstream.spark.source.read_options import check_batch_options
        from millstream.spark.source.read_plan import check_schema
        from millstream.spark.source.reader import BatchReader

        options, plan = self._prepare_read()
        check_batch_options(options)
        check_schema(schema, plan)
        return BatchReader(options, plan, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's name
        """For `spark.readStream`."""
        from millstream.spark.source.read_options import check_stream_options
        from millstream.spark.source.read_plan import check_schema
        from millstream.spark.source.reader import StreamReader

        options, plan = self._prepare_read()
        check_stream_options(options)
        check_schema(schema, plan)
        return StreamReader(options, plan, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write` and `INSERT INTO`."""
        from millstream.spark.sink.writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 -- Spark's name
        """For `df.writeStream`."""
        from millstream.spark.sink.writer import StreamWriter

        return StreamWriter(self.options, schema)

    def _prepare_read(self) -> "tuple[ReadOptions, ReadPlan]":
        """The options, checked, and the plan: made by whichever method is called first, and kept when Spark pickles this object."""
        from millstream.spark.source.read_options import parse_read_options
        from millstream.spark.source.read_plan import plan_read

        options = parse_read_options(self.options)
        if self._read_plan is None:
            self._read_plan = plan_read(options)
        return options, self._read_plan
