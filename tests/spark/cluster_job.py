"""A job for `spark-submit`: writes rows to a topic, reads them again, and tells who did the work.

spark-submit ... cluster_job.py BOOTSTRAP TOPIC ROWS
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession


def whereabouts(_rows: Iterable[int]) -> Iterator[tuple[int, str]]:
    """The JVM that this task runs in, and the file that Millstream was imported from."""
    from time import sleep

    import millstream

    sleep(1)  # so that one executor does not take all tasks
    yield os.getppid(), str(millstream.__file__)


def main(brokers: str, topic: str, rows: str) -> None:
    """Write, read and report."""
    spark = SparkSession.builder.getOrCreate()
    from pyspark_millstream import DefaultSource

    spark.dataSource.register(DefaultSource)
    numbers = spark.range(0, int(rows), 1, 4).selectExpr("cast(id as string) as key", "repeat(cast(id as string), 10) as value")
    numbers.write.format("millstream").mode("append").option("kafka.bootstrap.servers", brokers).option("topic", topic).save()
    read = spark.read.format("millstream").option("kafka.bootstrap.servers", brokers).option("subscribe", topic).load()
    keys = read.selectExpr("count(distinct cast(key as string)) as keys", "count(*) as rows").first()
    assert keys is not None
    found = spark.sparkContext.parallelize(range(4), 4).mapPartitions(whereabouts).collect()
    places = {"driver": os.getpid(), "parents": sorted({parent for parent, _ in found}), "files": sorted({file for _, file in found})}
    print("OUTCOME " + json.dumps({"keys": keys["keys"], "rows": keys["rows"], **places}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
