"""Loads that run while topics, schemas and the world around them change."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from millstream.errors import MillstreamError
from millstream.registry.client import RegistryClient
from millstream.spark.jobs.load.check import check_load
from millstream.spark.jobs.load.load import start_load
from tests.brokers import Broker
from tests.pipeline.events import NOON_MS, write
from tests.pipeline.lake_reading import LOAD_S, load, places, rows, settings_for
from tests.spark.avro_messages import message, record, register
from tests.spark.traffic import NOISE, Traffic
from tests.topics import create_topic, delete_topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_a_load_that_runs_takes_in_new_columns_while_messages_come(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    topic = create_topic(broker, partitions=2)
    settings = settings_for(
        broker, tmp_path, topic, value_format="avro", registry=registry_url, once=False, every="100 ms", dead_letters=f"{topic}-noise"
    )
    versions = [record(n="long"), record(n="long", page=("string", "/")), record(n="long", page=("string", "/"), seconds=("float", 0.0))]
    ids = [register(registry, f"{topic}-value", versions[0])]
    query = start_load(spark, settings)

    def loaded(column: str, count: int) -> bool:
        assert query.exception() is None, query.exception()
        if not DeltaTable.is_deltatable(f"{settings.to}/{topic}"):
            return False
        found = DeltaTable(f"{settings.to}/{topic}")
        return column in found.schema().to_arrow().names and found.count() >= count

    with Traffic(broker, topic, partition=1, per_second=20):
        for number, (schema, column) in enumerate(zip(versions, ("n", "page", "seconds"), strict=True)):
            if number:
                ids.append(register(registry, f"{topic}-value", schema))
            event: dict[str, Any] = {"n": number, "page": f"/{number}", "seconds": number / 2}
            write(broker, topic, [message(ids[number], schema, event)])
            wait_until(lambda column=column, number=number: loaded(column, number + 1), column, deadline_s=LOAD_S)  # type: ignore[misc]
    query.stop()
    found = [(row["n"], row["page"], row["seconds"]) for row in rows(settings)]
    # The first was read before there were other columns.
    assert found == [(0, None, None), (1, "/1", None), (2, "/2", 1.0)]
    assert all(partition == 0 for partition, _ in places(settings)), f"{NOISE} is no Avro"


def test_a_topic_that_was_made_anew_is_not_mixed_with_the_former(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker)
    write(broker, topic, [b"old"] * 3)
    settings = settings_for(broker, tmp_path, topic, value_format="string")
    load(spark, settings)
    delete_topic(broker, topic)
    create_topic(broker, name=topic)
    write(broker, topic, [b"new"] * 5)
    with pytest.raises(StreamingQueryException, match="deleted and created again"):
        load(spark, settings)
    assert [row["value"] for row in rows(settings)] == ["old"] * 3


def test_what_is_missing_is_said_before_spark_starts(broker: Broker, registry_url: str, tmp_path: Path) -> None:
    topic = create_topic(broker)
    avro = {"value_format": "avro", "registry": registry_url}
    for settings, sentence in (
        (settings_for(broker, tmp_path, topic[:-1]), f"there is no topic '{topic[:-1]}' at .* Did you mean '{topic[:-2]}"),
        (settings_for(broker, tmp_path, topic, **avro), f"the registry has no schema for {topic}"),
        (settings_for(broker, tmp_path, topic, key_format="avro", registry=registry_url), f"no schema for the keys of {topic}"),
        (settings_for(broker, tmp_path, topic, **avro | {"registry": "http://127.0.0.1:1"}), r"127\.0\.0\.1:1"),
        (settings_for(broker, tmp_path, topic, event_time="at"), f"event-time at: the table {topic} has no field at"),
    ):
        with pytest.raises(MillstreamError, match=sentence):
            check_load(settings)
    assert list(tmp_path.iterdir()) == []


def test_messages_of_any_time_are_rows(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, configs={"message.timestamp.after.max.ms": 2**63 - 1})
    times = [NOON_MS, 1, 253_402_300_800_000, 2**62, NOON_MS + 3_600_000, NOON_MS]
    write(broker, topic, [json.dumps(time).encode() for time in times], times_ms=times)
    settings = settings_for(broker, tmp_path, topic, value_format="json", value_schema="x INT", fail_on_malformed=False)
    load(spark, settings)
    assert rows(settings) == []
    plain = settings_for(broker, tmp_path / "plain", topic, value_format="string")
    load(spark, plain)
    assert [(row["event_hour"], row["kafka_timestamp"] is None) for row in rows(plain)] == [
        (12, False), (0, False), (None, True), (None, True), (13, False), (12, False)
    ]  # fmt: skip
