"""Loads into Delta tables, on a real Spark, read back by other tools."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pytest
from pyspark.errors import StreamingQueryException

from millstream.errors import UsageError
from millstream.lake.delta_table import DeltaWriter
from millstream.lake.errors import TableMismatch
from millstream.registry.client import RegistryClient
from millstream.spark.jobs.running.batch_progress import CountedRows
from tests.brokers import Broker
from tests.pipeline.events import MINUTE_MS, NOON_MS, write
from tests.pipeline.lake_reading import load, query_id, rows, settings_for, table
from tests.spark.admin import delete_records
from tests.spark.avro_messages import message, record, register
from tests.spark.topic_content import read
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


def test_a_topic_that_is_added_begins_with_the_first_message_that_there_is(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    known, added = create_topic(broker), create_topic(broker)
    write(broker, known, [b"a"])
    write(broker, added, [b"deleted", b"deleted", b"b"])
    delete_records(broker, added, before=2)
    settings = settings_for(broker, tmp_path, known, value_format="string")
    load(spark, settings)
    load(spark, replace(settings, topics=(known, added)))
    assert [(row["value"], row["kafka_offset"]) for row in rows(settings, added)] == [("b", 2)]


def test_columns_of_new_versions_come_and_those_of_old_ones_stay(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    topic = create_topic(broker)
    registry.set_level("NONE", subject=f"{topic}-value")
    settings = settings_for(broker, tmp_path, topic, value_format="avro", registry=registry_url)
    inner = {"type": "record", "name": "inner"}
    first = record(n="int", old="string", new=inner | {"fields": [{"name": "gone", "type": "int"}]})
    old = {"n": 1, "old": "x", "new": {"gone": 7}}
    write(broker, topic, [message(register(registry, f"{topic}-value", first), first, old)])
    load(spark, settings)
    second = record(n="long", new=inner | {"fields": [{"name": "a", "type": "float"}]}, more=("boolean", True))
    write(broker, topic, [message(register(registry, f"{topic}-value", second), second, {"n": 2**40, "new": {"a": 0.5}, "more": False})])
    # A producer that has not heard of it goes on with the first version.
    write(broker, topic, [message(register(registry, f"{topic}-value", first), first, old | {"n": 3})])
    load(spark, settings)
    assert [(row["n"], row["old"], row["new"], row["more"]) for row in rows(settings)] == [
        (1, "x", {"gone": 7, "a": None}, None), (2**40, None, {"gone": None, "a": 0.5}, False), (3, "x", {"gone": 7, "a": None}, True)
    ]  # fmt: skip
    third = record(n="double")
    write(broker, topic, [message(register(registry, f"{topic}-value", third), third, {"n": 0.5})])
    with pytest.raises(TableMismatch, match=r"the column n of the table .* is int64, and the messages now have double there"):
        load(spark, settings)
    assert len(rows(settings)) == 3


def test_what_cannot_be_read_goes_to_a_topic_with_the_reason(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    topic = create_topic(broker)
    values: list[bytes | None] = [*views(registry, topic, 5)]
    values[2:2] = [b"nonsense", b"\x00\x00\x00\x00\x00", None]
    write(broker, topic, values)
    settings = settings_for(broker, tmp_path, topic, value_format="avro", registry=registry_url)
    with pytest.raises(StreamingQueryException, match=f"offset 2 of {topic}-0 is malformed: the value cannot be read: it does not begin"):
        load(spark, replace(settings, fail_on_malformed=True, checkpoint=f"{tmp_path}/strict"))
    assert not Path(settings.to, topic, "_delta_log").exists()
    counted = load(spark, settings).take(0)
    assert counted == CountedRows(6, malformed=2)
    assert [row["page"] for row in rows(settings)] == ["/0", "/1", None, "/2", "/3", "/4"]
    dead = read(broker, f"{topic}-dead-letters")
    assert [(one.key, one.value) for one in dead] == [(b"key-2", b"nonsense"), (b"key-3", b"\x00\x00\x00\x00\x00")]
    reasons = [dict(one.headers or ())["millstream.reason"] for one in dead]
    assert reasons == [
        b"the value cannot be read: it does not begin with a zero byte and the id of a schema",
        b"the value cannot be read: its schema 0 is not in the registry",
    ]
    assert dict(dead[0].headers or ()) == {
        "millstream.topic": topic.encode(), "millstream.partition": b"0", "millstream.offset": b"2",
        "millstream.timestamp": b"%d" % (NOON_MS + 2 * MINUTE_MS), "millstream.reason": reasons[0],
    }  # fmt: skip
    [batch] = DeltaWriter(f"{settings.to}/{topic}").batches(str(query_id(settings)), after=-1)
    assert [(one.bucket, one.count, one.malformed, one.bounds) for one in batch.counts] == [(NOON_MS, 8, 2, (0, 8))]


def test_each_record_type_of_a_topic_has_a_table(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    topic = create_topic(broker)
    view = record(page="string") | {"name": "view"}
    click = record(link="string", page="int") | {"name": "click"}
    ids = [register(registry, f"{topic}-test.{one['name']}", one) for one in (view, click)]
    values: list[bytes | None] = []
    for number in range(6):
        values.append(message(ids[0], view, {"page": str(number)}))
        values.append(message(ids[1], click, {"link": "a", "page": number}))
    stranger = record(page="string") | {"name": "stranger"}
    values.append(message(register(registry, "elsewhere", stranger), stranger, {"page": "x"}))
    write(broker, topic, values)
    settings = settings_for(broker, tmp_path, topic, value_format="avro", registry=registry_url)
    load(spark, settings)
    assert [row["page"] for row in rows(settings, f"{topic}.test.view")] == list("012345")
    assert [(row["link"], row["page"]) for row in rows(settings, f"{topic}.test.click")] == [("a", number) for number in range(6)]
    [dead] = read(broker, f"{topic}-dead-letters")
    assert b"its record type test.stranger has no subject of this topic" in dict(dead.headers or ())["millstream.reason"]  # type: ignore[operator]


def test_a_new_checkpoint_goes_on_where_the_table_ends_and_an_old_one_is_refused(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    topic = create_topic(broker)
    write(broker, topic, [b'{"id": 1}', b'{"id": 2}'])
    columns = "id INT, name STRING"
    first = settings_for(broker, tmp_path, topic, value_format="json", value_schema=columns)
    load(spark, first)
    write(broker, topic, [b'{"id": 3, "name": "c"}'])
    second = replace(first, checkpoint=str(tmp_path / "second"))
    load(spark, second)
    assert [(row["id"], row["name"]) for row in rows(first)] == [(1, None), (2, None), (3, "c")]
    write(broker, topic, [b'{"id": 4}'])
    with pytest.raises(
        StreamingQueryException, match=f"the offsets 2 to 4 of {topic}-0 do not continue the table .*, which has them already"
    ):
        load(spark, first)
    with pytest.raises(UsageError, match="belongs to the load into delta tables at"):
        load(spark, replace(second, to=str(tmp_path / "elsewhere")))
    load(spark, second)
    assert [row["id"] for row in rows(first)] == [1, 2, 3, 4]


def test_the_lake_is_read_by_duckdb_polars_and_pandas(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=3)
    numbers = list(range(500))
    for partition in range(3):
        write(
            broker,
            topic,
            [b"%d" % number for number in numbers],
            partition=partition,
            times_ms=[NOON_MS + n * MINUTE_MS // 2 for n in numbers],
        )
    settings = settings_for(broker, tmp_path, topic, value_format="string", batch_messages=400)
    load(spark, settings)
    expected = {12 + hour: 3 * len([n for n in numbers if n // 120 == hour]) for hour in range(5)}
    batches = DeltaWriter(f"{settings.to}/{topic}").batches(query_id(settings), after=-1)
    assert [one.is_behind for one in batches] == [True, True, True, False]
    last_ms = max(NOON_MS + n * MINUTE_MS // 2 for n in numbers)
    assert all(one.progress_ms is not None and (one.progress_ms < last_ms) == one.is_behind for one in batches)
    files = table(settings)
    dataset = files.to_pyarrow_dataset()  # noqa: F841 -- DuckDB finds it by its name
    connection = duckdb.connect()
    assert dict(connection.execute("SELECT event_hour, count(*) FROM dataset GROUP BY event_hour").fetchall()) == expected
    assert connection.execute("SELECT sum(value::INT) FROM dataset WHERE event_hour = 13").fetchall() == [(3 * sum(range(120, 240)),)]
    by_polars = pl.scan_delta(f"{settings.to}/{topic}").group_by("event_hour").len().collect()
    assert dict(by_polars.rows()) == expected
    late = pl.scan_delta(f"{settings.to}/{topic}").filter(pl.col("kafka_timestamp") >= NOON + timedelta(minutes=240))
    assert late.select(pl.len()).collect().item() == 3 * 20
    by_spark = spark.read.option("basePath", f"{settings.to}/{topic}").parquet(*files.file_uris())
    assert dict(by_spark.groupBy("event_hour").count().collect()) == expected
    frame = files.to_pandas()
    assert frame.groupby("event_hour").size().to_dict() == expected
    assert not frame.duplicated(["kafka_partition", "kafka_offset"]).any()
    spread = files.to_pyarrow_table(filters=[("kafka_offset", ">=", 498)])["kafka_offset"].to_pylist()
    assert sorted(spread) == [498, 498, 498, 499, 499, 499]
