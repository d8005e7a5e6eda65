"""The paper loads into HDFS: Parquet there, with the checkpoint beside it, both through Spark."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.brokers import Broker
from tests.pipeline.events import write
from tests.pipeline.hdfs import small_hdfs
from tests.pipeline.lake_reading import load, settings_for
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_a_load_into_hdfs_goes_on_where_it_was(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker)
    with small_hdfs(tmp_path) as address:
        settings = settings_for(
            broker, tmp_path, topic, table="parquet", value_format="string", to=f"{address}/lake", checkpoint=f"{address}/checkpoint"
        )
        for values in ([b"one", b"two"], [b"three"]):
            write(broker, topic, values)
            load(spark, settings)
        found = spark.read.parquet(settings.to).select("value", "event_hour").collect()
    assert sorted((row[0], row[1]) for row in found) == [("one", 12), ("three", 12), ("two", 12)]
