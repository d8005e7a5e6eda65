"""A query that copies one topic to another and dies in it, at a stage that `dying_data_source` explains.

python -m tests.spark.dying_query BOOTSTRAP SOURCE TARGET CHECKPOINT STAGE GUARANTEE
"""

import os
import sys
from pathlib import Path

from millstream.spark.session import start_session
from tests.spark.conftest import SPARK_OPTIONS
from tests.spark.dying_data_source import JVM_FILE, STAGE, DyingDataSource


def main(bootstrap: str, source: str, target: str, checkpoint: str, stage: str, guarantee: str) -> None:
    """Copy a topic until the end comes."""
    pid_file = Path(checkpoint).with_suffix(".pid")
    os.environ |= {STAGE: stage, JVM_FILE: str(pid_file)}
    spark = start_session("dying", master="local[2]", options=SPARK_OPTIONS)
    pid_file.write_text(str(spark.sparkContext._gateway.proc.pid))  # type: ignore[union-attr]
    spark.dataSource.register(DyingDataSource)
    rows = spark.readStream.format("millstream").option("kafka.bootstrap.servers", bootstrap).option("subscribe", source)
    query = (
        rows.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("dying")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("delivery.guarantee", guarantee)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(200)


if __name__ == "__main__":
    main(*sys.argv[1:])
