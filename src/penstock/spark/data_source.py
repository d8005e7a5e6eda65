"""`format("penstock")`: what Spark asks for a schema, for readers and for writers.

Spark makes one of these per `load()` or `save()`, in a Python process beside the driver, asks it for its schema, and then pickles it: the
copies make the readers and writers, on the driver and for every task. So whatever must be the same for the whole query (the Avro schemas it
reads with) is looked up once, in `schema`, and travels inside. Everything heavy is imported by the method that needs it.
"""

from pyspark.sql.datasource import DataSource


class PenstockDataSource(DataSource):
    """Topics of Penstock or Apache Kafka as tables and streams.

    The options are those of `format("kafka")`, and those that docs/spark.md lists besides:

        spark.readStream.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "page-views").load()
    """

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "penstock"
