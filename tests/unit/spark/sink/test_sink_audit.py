"""What the tasks of a write have written, as one report per batch."""

from typing import Any, NamedTuple

import pytest
from pyspark.sql.types import StringType, StructType

from millstream.audit.reports.report import Count, Kind
from millstream.spark.sink import sink_audit
from millstream.spark.sink.sink_audit import SinkCount, publish_counts
from millstream.spark.sink.write_plan import WritePlan, plan_write


class Task(NamedTuple):
    counts: tuple[SinkCount, ...]


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(sink_audit, "publish_batch", lambda settings, brokers, kind, **rest: calls.append({"kind": kind, **rest}))
    return calls


def plan(**options: str) -> WritePlan:
    schema = StructType().add("value", StringType()).add("topic", StringType())
    return plan_write({"kafka.bootstrap.servers": "127.0.0.1:1", **options}, schema)


TASKS = [Task((SinkCount("orders", 0, 5, 50),)), Task(()), Task((SinkCount("orders", 600_000, 2, 20),))]


def test_a_query_with_one_topic_numbers_its_reports(published: list[dict[str, Any]]) -> None:
    for number in (0, 1):
        publish_counts(plan(topic="orders", audit="writer"), TASKS, batch="query", number=number)
    assert [call["sequence"] for call in published] == [0, 1]
    assert published[0]["reporter"] == published[1]["reporter"]
    assert published[0]["kind"] is Kind.PRODUCER
    assert published[0]["counts"] == {"orders": [Count(0, 5, 50), Count(600_000, 2, 20)]}


def test_a_query_whose_rows_name_their_topics_has_a_reporter_for_each_report(published: list[dict[str, Any]]) -> None:
    for number in (0, 1):
        publish_counts(plan(audit="writer"), TASKS, batch="query", number=number)
    assert [call["sequence"] for call in published] == [0, 0]
    assert published[0]["reporter"] != published[1]["reporter"]


def test_without_a_tier_nothing_is_published(published: list[dict[str, Any]]) -> None:
    publish_counts(plan(topic="orders"), TASKS, batch="query")
    assert published == []
