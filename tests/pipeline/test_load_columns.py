"""What of a message becomes a column: keys, headers, and the time that decides about its hour."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from millstream.lake.delta_table import DeltaWriter
from millstream.registry.client import RegistryClient
from tests.brokers import Broker
from tests.pipeline.events import NOON_MS
from tests.pipeline.lake_reading import load, query_id, rows, settings_for
from tests.spark.avro_messages import message, record, register
from tests.spark.topic_content import Message, write
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
KEY = record(user="int", site=("string", "here"))
HEADERS = (("trace", b"\x01"), ("trace", b"\x02"), ("empty", None))


def test_keys_are_typed_headers_kept_and_a_field_gives_the_hour(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    topic = create_topic(broker)
    key_id = register(registry, f"{topic}-key", KEY)
    times: list[Any] = [NOON_MS, NOON_MS + 2 * HOUR_MS, None, -5, 10**17, NOON_MS]
    values = [json.dumps({"request": {"at": time}}).encode() for time in times]
    keys = [message(key_id, KEY, {"user": number, "site": "there"}) for number in range(len(times) - 1)]
    written = [
        Message(value, key, headers=HEADERS if not number else (), timestamp_ms=NOON_MS)
        for number, (value, key) in enumerate(zip(values, [*keys, b"no avro"], strict=True))
    ]
    write(broker, topic, written)
    settings = settings_for(
        broker, tmp_path, topic, key_format="avro", registry=registry_url, headers=True, event_time="request.at", value_format="json",
        value_schema="request STRUCT<at: LONG>",
    )  # fmt: skip
    load(spark, settings)
    found = rows(settings)
    assert [row["kafka_key"] for row in found] == [{"user": number, "site": "there"} for number in range(5)]
    headers = [{"key": name, "value": value} for name, value in HEADERS]
    assert [row["kafka_headers"] for row in found] == [headers, None, None, None, None]
    noon, day = datetime(2026, 5, 4, 12, tzinfo=UTC), date(2026, 5, 4)
    assert [(row["event_timestamp"], row["event_date"], row["event_hour"]) for row in found] == [
        (noon, day, 12), (noon.replace(hour=14), day, 14), *[(None, None, None)] * 3
    ]  # fmt: skip
    assert [row["request"]["at"] for row in found] == times[:5]
    # For the audit messages are counted by their own time, as all others count them; with the one whose key cannot be read.
    [batch] = DeltaWriter(f"{settings.to}/{topic}").batches(query_id(settings), after=-1)
    assert [(one.bucket, one.count, one.malformed) for one in batch.counts] == [(NOON_MS, 6, 1)]
    assert (batch.is_behind, batch.progress_ms is not None) == (False, True)
