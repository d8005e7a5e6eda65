"""Loads with a query between topic and table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from millstream.audit.verdict import Verdict
from millstream.errors import UsageError
from millstream.lake.delta_table import DeltaWriter
from tests.audit_reports import read_rows
from tests.brokers import Broker
from tests.pipeline.events import NOON_MS, write
from tests.pipeline.lake_reading import load, query_id, settings_for, table
from tests.pipeline.replayed_batch import forget_last_batch
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SQL = "SELECT upper(page) AS page, n * 2 AS twice, kafka_offset, kafka_timestamp FROM messages WHERE n % 2 = 0"


def views(count: int, start: int = 0) -> list[bytes | None]:
    return [json.dumps({"page": f"p{number}", "n": number}).encode() for number in range(start, start + count)]


def test_the_result_of_a_query_is_loaded_once_and_its_offsets_are_those_it_read(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    topic = create_topic(broker)
    write(broker, topic, views(6))
    settings = settings_for(broker, tmp_path, topic, value_format="json", value_schema="page STRING, n INT", sql=SQL, audit="lake")
    load(spark, settings)
    assert forget_last_batch(settings.checkpoint) == 0
    # Odd ones alone, so that a micro-batch has no rows.
    write(broker, topic, views(1, start=7), times_ms=[NOON_MS])
    load(spark, settings)
    write(broker, topic, views(2, start=8), times_ms=[NOON_MS, NOON_MS])
    load(spark, replace(settings, checkpoint=f"{tmp_path}/another"))
    found = table(settings).to_pyarrow_table().select(["page", "twice", "kafka_offset"]).to_pylist()
    expected = [("P0", 0, 0), ("P2", 4, 2), ("P4", 8, 4), ("P8", 16, 7)]
    assert sorted((row["page"], row["twice"], row["kafka_offset"]) for row in found) == expected
    writer = DeltaWriter(f"{settings.to}/{topic}")
    assert [one.ranges for one in writer.batches(query_id(settings), after=-1)] == [((0, 0, 6),), ((0, 6, 7),)]
    assert writer.positions(topic, [0]) == {0: 9}
    lake = [row for row in read_rows(broker.bootstrap_servers, topic, with_log=True) if row.tier.name == "lake"]
    assert (sum(row.count for row in lake), {row.verdict for row in lake}) == (9, {Verdict.COMPLETE})
    write(broker, topic, [b"nonsense"], times_ms=[NOON_MS])
    with pytest.raises(StreamingQueryException, match=f"offset 9 of {topic}-0"):
        load(spark, replace(settings, checkpoint=f"{tmp_path}/another"))


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT nothing, kafka_timestamp FROM messages", "nothing"),
        ("SELEKT value FROM messages", "SELEKT"),
        ("SELECT value FROM messages", "the result has no column kafka_timestamp"),
        ("SELECT 1 AS n /* messages */", "does not read messages"),
        ("SELECT * FROM messages LIMIT 3", "LIMIT counts over all runs"),
        ("SELECT * FROM messages UNION ALL SELECT * FROM messages", "reads messages 2 times"),
        ("SELECT count(*) AS n, kafka_timestamp FROM messages GROUP BY kafka_timestamp", "aggregation"),
    ],
)
def test_a_query_that_cannot_be_loaded_is_said(spark: "SparkSession", broker: Broker, tmp_path: Path, sql: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"(?i)sql: .*{problem}"):
        load(spark, settings_for(broker, tmp_path, create_topic(broker), value_format="string", sql=sql))
    assert not Path(tmp_path, "lake").exists()
