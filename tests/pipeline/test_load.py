"""Loads into Delta tables, on a real Spark, read back by other tools."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.registry.client import RegistryClient
from tests.brokers import Broker
from tests.pipeline.events import NOON_MS, write
from tests.pipeline.lake_reading import load, rows, settings_for, table
from tests.spark.avro_messages import message, record, register
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
VIEW = record(page="string", visits="int", share="float", tags={"type": "array", "items": "string"}, seen=["null", "long"])


def views(registry: RegistryClient, topic: str, count: int) -> list[bytes]:
    schema_id = register(registry, f"{topic}-value", VIEW)
    return [
        message(schema_id, VIEW, {"page": f"/{number}", "visits": number, "share": 0.5, "tags": ["a", "b"][: number % 3], "seen": None})
        for number in range(count)
    ]


def test_avro_messages_become_typed_rows_by_date_and_hour(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    topic = create_topic(broker, partitions=2)
    values = views(registry, topic, 100)
    write(broker, topic, values)
    write(broker, topic, values[:5], partition=1)
    settings = settings_for(broker, tmp_path, topic, value_format="avro", registry=registry_url, key_format="string")
    progress = load(spark, settings)
    counted = progress.take(0)
    assert counted is not None
    assert counted.rows == 105
    found = rows(settings)
    assert found == [
        {
            "page": f"/{number}", "visits": number, "share": 0.5, "tags": ["a", "b"][: number % 3], "seen": None,
            "kafka_key": f"key-{number}", "kafka_partition": partition, "kafka_offset": number,
            "kafka_timestamp": NOON + timedelta(minutes=number), "event_date": date(2026, 5, 4), "event_hour": 12 + number // 60,
        }
        for partition, count in ((0, 100), (1, 5))
        for number in range(count)
    ]  # fmt: skip
    assert {str(field.type) for field in table(settings).schema().fields if field.name in {"visits", "share"}} == {
        'PrimitiveType("long")',
        'PrimitiveType("double")',
    }
    assert len(table(settings).file_uris()) == 2


def test_a_load_goes_on_where_it_was(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker)
    write(broker, topic, [b"a", b"b"])
    settings = settings_for(broker, tmp_path, topic, value_format="string")
    load(spark, settings)
    load(spark, settings)
    write(broker, topic, [b"c", None], times_ms=[NOON_MS, NOON_MS])
    load(spark, settings)
    assert [row["value"] for row in rows(settings)] == ["a", "b", "c", None]
