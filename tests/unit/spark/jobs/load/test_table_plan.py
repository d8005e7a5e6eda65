from typing import Any

import pyarrow as pa
import pytest

from millstream.errors import UsageError
from millstream.lake.columns import HEADERS, TIMESTAMP
from millstream.lake.errors import BadColumns
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.table_plan import TablePlan, TablePlanner


def plans(**given: Any) -> tuple[TablePlan, ...]:
    settings = LoadSettings(**{"brokers": "b:1", "topics": ("clicks",), "to": "lake", "checkpoint": "here", **given})
    with TablePlanner(settings) as planner:
        return planner.plans()


def test_a_table_has_the_columns_that_were_asked_for() -> None:
    json = {"value_format": "json", "value_schema": "at INT, share FLOAT"}
    keys = {"key_format": "json", "key_schema": "user SMALLINT"}
    [plan] = plans(**json, **keys, headers=True, event_time="at")
    assert plan.table == plan.topic == "clicks"
    assert plan.files == pa.schema(
        [
            ("at", pa.int64()), ("share", pa.float64()), ("kafka_key", pa.struct([("user", pa.int64())])),
            ("kafka_partition", pa.int32()), ("kafka_offset", pa.int64()), ("kafka_timestamp", TIMESTAMP), ("kafka_headers", HEADERS),
            ("event_timestamp", TIMESTAMP),
        ]
    )  # fmt: skip


def test_each_topic_has_a_table() -> None:
    assert [(plan.table, plan.value.kind) for plan in plans(topics=("a", "b"), value_format="string")] == [
        ("a", pa.string()), ("b", pa.string())
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"value_format": "json", "value_schema": "id BIGINY"}, "value-schema: 'id BIGINY' is no list of columns"),
        ({"key_format": "json", "key_schema": "id"}, "key-schema: 'id' is no list of columns"),
        ({"event_time": "at"}, "event-time at: the table clicks has no field at; there are event_timestamp, kafka_key"),
        ({"value_format": "json", "value_schema": "at STRING", "event_time": "at"}, "in the table clicks it is string"),
        ({"value_format": "json", "value_schema": "Kafka_Key STRING"}, "there would be two columns Kafka_Key"),
        ({"value_format": "json", "value_schema": "event_timestamp LONG", "event_time": "event_timestamp"}, "two columns event_timestamp"),
    ],
)
def test_what_cannot_become_columns_is_said(given: dict[str, Any], problem: str) -> None:
    with pytest.raises((UsageError, BadColumns), match=problem):
        _ = [plan.files for plan in plans(**given)]
