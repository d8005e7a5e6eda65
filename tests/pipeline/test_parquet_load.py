"""Loads into directories of Parquet, by Spark's own sink."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.errors import UsageError
from millstream.lake.errors import TableMismatch
from millstream.registry.client import RegistryClient
from tests.brokers import Broker
from tests.pipeline.events import MINUTE_MS, NOON_MS, write
from tests.pipeline.lake_reading import load, settings_for, table
from tests.spark.avro_messages import message, record, register
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


def test_columns_of_all_versions_come_through_spark_too(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    """Into Parquet and by a query, as in plain loads: what a version dropped, and what it added; absurd times are none."""
    topic, first, second = create_topic(broker), record(at="long", old="int"), record(at="long", new=["null", "string"])
    registry.set_level("NONE", subject=f"{topic}-value")
    ids = register(registry, f"{topic}-value", first), register(registry, f"{topic}-value", second)
    values = [message(ids[0], first, {"at": at, "old": 1}) for at in (NOON_MS, 10**17, -(10**17))]
    write(broker, topic, [*values, message(ids[1], second, {"at": NOON_MS, "new": "x"})])
    settings = settings_for(broker, tmp_path, topic, table="parquet", value_format="avro", registry=registry_url, event_time="at")
    load(spark, settings)
    found = spark.read.parquet(settings.to).orderBy("kafka_offset").select("old", "new", "event_hour").collect()
    assert [tuple(row) for row in found] == [(1, None, 12), (1, None, None), (1, None, None), (None, "x", 12)]
    queried = replace(settings, table="delta", sql="SELECT * FROM messages", to=f"{tmp_path}/delta", checkpoint=f"{tmp_path}/another")
    load(spark, queried)
    rows = sorted(table(queried).to_pyarrow_table().to_pylist(), key=lambda row: int(row["kafka_offset"]))
    assert [(row["old"], row["new"], row["event_hour"]) for row in rows] == [tuple(row) for row in found]
    types = create_topic(broker)
    register(registry, f"{types}-test.event", first)
    with pytest.raises(UsageError, match=f"{types} has several record types"):
        load(spark, replace(queried, topics=(types,), checkpoint=f"{tmp_path}/third"))
