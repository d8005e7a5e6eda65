"""Reading topics through Spark in tests: frames with the options written as keyword arguments, rows as plain values."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.brokers import Broker
from tests.spark.topic_content import Row
from tests.spark.traffic import NOISE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def frame(spark: "SparkSession", broker: Broker, topic: str | None = None, **options: object) -> "DataFrame":
    """A batch read; an underscore twice in a keyword stands for a dot."""
    return spark.read.format("millstream").options(**_options(broker, topic, options)).load()


def stream(spark: "SparkSession", broker: Broker, topic: str | None = None, **options: object) -> "DataFrame":
    """A streaming read, from the earliest offset unless said otherwise."""
    return spark.readStream.format("millstream").options(**_options(broker, topic, {"startingOffsets": "earliest"} | options)).load()


def _options(broker: Broker, topic: str | None, options: dict[str, object]) -> dict[str, Any]:
    given = {name.replace("__", "."): str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    if topic is not None:
        given["subscribe"] = topic
    return {"kafka.bootstrap.servers": broker.bootstrap_servers} | given


def rows(data: "DataFrame") -> list[Row]:
    """The rows of a frame with all columns, by partition and offset; times to the millisecond."""
    found = []
    for row in data.selectExpr("*", "unix_millis(timestamp) AS millis").collect():
        headers = row["headers"] if "headers" in data.columns else None
        entries = None if headers is None else tuple((entry["key"], _bytes(entry["value"])) for entry in headers)
        found.append(
            Row(_bytes(row["key"]), _bytes(row["value"]), row["topic"], row["partition"], row["offset"], row["millis"],
                row["timestampType"], entries)
        )  # fmt: skip
    return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


def numbers(data: "DataFrame") -> list[int]:
    """The values of a frame, as the numbers that `write_numbers` wrote, sorted; without what `Traffic` wrote between them."""
    return sorted(int(row[0]) for row in data.selectExpr("CAST(value AS STRING) AS value").where(f"value != '{NOISE}'").collect())


def run_available(data: "DataFrame", output: Path, checkpoint: str, **options: str) -> "StreamingQuery":
    """Run what is available now into a table of files, to the end."""
    writer = data.selectExpr("CAST(value AS STRING) AS value", "partition", "offset").writeStream.format("json")
    query = writer.options(**options).option("checkpointLocation", checkpoint).trigger(availableNow=True).start(str(output))
    assert query.awaitTermination(300), "the query did not end"
    return query


def table(spark: "SparkSession", output: Path) -> list[int]:
    """The numbers in a table of files, sorted."""
    return numbers(spark.read.schema("value STRING, partition INT, offset BIGINT").json(str(output)))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
