"""Loads into Iceberg tables, read back by other tools."""

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from millstream.lake.iceberg_catalog import open_catalog
from millstream.registry.client import RegistryClient
from tests.brokers import Broker
from tests.pipeline.events import NOON_MS, write
from tests.pipeline.lake_reading import load, settings_for
from tests.pipeline.replayed_batch import forget_last_batch
from tests.spark.avro_messages import message, record, register
from tests.spark.topic_content import read
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_messages_become_rows_of_an_iceberg_table_once(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(broker)
    first = record(n="int")
    schema_id = register(registry, f"{topic}-value", first)
    write(broker, topic, [*(message(schema_id, first, {"n": number}) for number in range(70)), b"bad"])
    settings = settings_for(broker, tmp_path, topic, table="iceberg", value_format="avro", registry=registry_url, batch_messages=40)
    load(spark, settings)
    assert forget_last_batch(settings.checkpoint) == 1
    second = record(n="int", page=("string", "/"))
    schema_id = register(registry, f"{topic}-value", second)
    write(broker, topic, [message(schema_id, second, {"n": 70, "page": "/a"})], times_ms=[NOON_MS])
    load(spark, settings)
    table = open_catalog(settings.to, {}).load_table(("lake", topic))
    found = table.scan().to_arrow().select(["n", "page", "kafka_offset"]).to_pylist()
    assert sorted(row["n"] for row in found) == list(range(71))
    assert {row["page"] for row in found} == {None, "/a"}
    hours = {(part["partition"]["event_hour"], part["record_count"]) for part in table.inspect.partitions().to_pylist()}
    assert {count for _, count in hours} == {61, 10}
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    after_one = pl.scan_iceberg(table.metadata_location).filter(pl.col("kafka_timestamp").dt.hour() == 13).select(pl.len()).collect()
    assert after_one.item() == 10
    [counted] = table.scan().to_duckdb("loaded").execute("SELECT count(*), sum(n), count(page) FROM loaded").fetchall()
    assert counted == (71, sum(range(71)), 1)
    assert {letter.value for letter in read(broker, f"{topic}-dead-letters")} == {b"bad"}
