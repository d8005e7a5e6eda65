"""A query of its own process that copies a topic into a table of files, for tests that kill it.

It takes seven offsets per micro-batch, so that a kill at any moment meets some stage of one, and ends when nothing is left.
"""

import sys

from millstream.spark.session import start_session


def main(bootstrap_servers: str, topic: str, table: str, checkpoint: str) -> None:
    """Copy what is available now, and end."""
    options = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = start_session("endless-query", master="local[2]", options=options)
    reader = spark.readStream.format("millstream").option("kafka.bootstrap.servers", bootstrap_servers).option("subscribe", topic)
    data = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "7").load()
    rows = data.selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
    query = rows.writeStream.format("json").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(table)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
