"""A job for a Spark cluster: copies what is on one topic to another, and goes on from its checkpoint the next time.

export PYSPARK_PYTHON=$(which python)
scripts/spark_zip.py millstream.zip
spark-submit --master spark://HOST:7077 --py-files millstream.zip examples/spark_copy_topic.py HOST:9092 SOURCE TARGET CHECKPOINT
"""
# ruff: noqa: INP001, T201 - an example is a script, and prints

import sys

from pyspark.sql import SparkSession


def copy_topic(spark: SparkSession, brokers: str, source: str, target: str, checkpoint: str) -> None:
    """Write every record of one topic to another, with its key and headers, until nothing is left."""
    from pyspark_millstream import DefaultSource

    # A package that is installed registers itself; one that came with --py-files has to be told to.
    spark.dataSource.register(DefaultSource)
    records = (
        spark.readStream.format("millstream")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .select("key", "value", "headers")
    )
    query = (
        records.writeStream.format("millstream")
        .option("kafka.bootstrap.servers", brokers)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = sum(progress["numInputRows"] for progress in query.recentProgress)
    print(f"copied {copied} records from {source} to {target}")


if __name__ == "__main__":
    session = SparkSession.builder.appName("copy-topic").getOrCreate()
    copy_topic(session, *sys.argv[1:])
    session.stop()
