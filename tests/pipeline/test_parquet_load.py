"""Loads into directories of Parquet, by Spark's own sink."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.lake.errors import TableMismatch
from tests.brokers import Broker
from tests.pipeline.events import MINUTE_MS, NOON_MS, write
from tests.pipeline.lake_reading import load, settings_for
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_topics_become_a_directory_by_topic_date_and_hour(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topics = [create_topic(broker), create_topic(broker)]
    times = [NOON_MS + number * MINUTE_MS for number in range(69)] + [10**17]
    for topic in topics:
        write(broker, topic, [b'{"n": %d, "at": %d}' % (number, time) for number, time in enumerate(times)], times_ms=[NOON_MS] * 70)
    json = {"value_format": "json", "value_schema": "n INT, at LONG"}
    settings = settings_for(broker, tmp_path, *topics, table="parquet", **json, event_time="at", headers=True)
    load(spark, settings)
    load(spark, settings)
    found = spark.read.parquet(settings.to).groupBy("topic", "event_hour").sum("n").collect()
    expected = {(topic, hour): total for topic in topics for hour, total in ((12, sum(range(60))), (13, sum(range(60, 69))), (None, 69))}
    assert {(row[0], row[1]): row[2] for row in found} == expected
    with pytest.raises(TableMismatch, match="was loaded with another checkpoint"):
        load(spark, replace(settings, checkpoint=str(tmp_path / "another")))
