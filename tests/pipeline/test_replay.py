"""Replays from a time and from an offset, beside the live job, which goes on."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from millstream.spark.jobs.description.job_topics import JobTopics
from millstream.spark.jobs.description.replay import replayed
from millstream.spark.jobs.description.windows_job import WindowsJob
from millstream.spark.jobs.streams.windows import start_windows
from tests.brokers import Broker
from tests.pipeline.site_activity import MINUTE_MS, START_MS, expected_windows, make_views, send_in_order, window_results
from tests.pipeline.windows_jobs import windows_job
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

VIEWS = make_views(900)
EXPECTED = expected_windows(VIEWS, size_ms=10 * MINUTE_MS, step_ms=10 * MINUTE_MS)
SECOND_WINDOW_MS = START_MS + 10 * MINUTE_MS


def test_a_replay_gives_the_same_results_while_the_live_job_runs(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=2)
    live = windows_job(broker, topic, tmp_path)
    send_in_order(broker, topic, VIEWS[:500])
    query = start_windows(spark, live)
    try:
        wait_until(lambda: window_results(broker, live.output.topic), "the first results of the live job", deadline_s=200)
        # The view before the window belongs to one that the replay has not seen whole.
        from_ms = SECOND_WINDOW_MS - 5_000
        by_time = replayed(live, {"input": f"@{from_ms}"}, table=str(tmp_path / "by-time"), from_ms=from_ms)
        send_in_order(broker, topic, VIEWS[500:])
        run(spark, by_time)
        assert query.isActive
        with JobTopics(live) as topics:
            starts = topics.starts_at(0)
        by_offset = replayed(live, starts, topic=create_topic(broker, name=fresh_name("by-offset")))
        run(spark, by_offset)
        closed = {place: result for place, result in EXPECTED.items() if place[0] <= SECOND_WINDOW_MS}
        wait_until(lambda: len(window_results(broker, live.output.topic)) == len(closed), "the live job's results", deadline_s=200)
    finally:
        query.stop()
    assert window_results(broker, live.output.topic) == closed
    assert window_results(broker, by_offset.output.topic) == EXPECTED
    rows = DeltaTable(by_time.output.table).to_pyarrow_table().to_pylist()
    assert sorted((round(row["window_start"].timestamp() * 1000), row["page"], row["views"], row["users"]) for row in rows) == sorted(
        (place[0], place[2], result["views"], result["users"]) for place, result in EXPECTED.items() if place[0] >= SECOND_WINDOW_MS
    )


def run(spark: "SparkSession", job: object) -> None:
    assert isinstance(job, WindowsJob)
    query = start_windows(spark, job, is_final=True)
    assert query.awaitTermination(300), "the replay did not end"
