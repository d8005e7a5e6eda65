"""Windows on a real Spark, compared with what plain Python computes from the same events, while somebody else writes to the topic."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.spark.jobs.job_file import read_job
from millstream.spark.jobs.progress import read_job_progress
from millstream.spark.jobs.runner import run_job
from millstream.spark.jobs.windows import start_windows
from millstream.spark.jobs.windows_job import Window, WindowsJob
from tests.brokers import Broker
from tests.pipeline.site_activity import (
    MINUTE_MS,
    START_MS,
    View,
    expected_sessions,
    expected_windows,
    make_views,
    milliseconds,
    results,
    send,
    window_results,
)
from tests.pipeline.windows_jobs import TEN_MINUTES, windows_file, windows_job
from tests.spark.read_back import ends
from tests.spark.traffic import Traffic
from tests.topics import create_topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

VIEWS = make_views(900)
"""Half an hour."""
SLIDING = Window("sliding", size="10 minutes", slide="5 minutes", by=("page",))
SESSIONS = Window("session", gap="12 seconds", by=("page",))
EXPECTED = {
    TEN_MINUTES: expected_windows(VIEWS, size_ms=10 * MINUTE_MS, step_ms=10 * MINUTE_MS),
    SLIDING: expected_windows(VIEWS, size_ms=10 * MINUTE_MS, step_ms=5 * MINUTE_MS),
    SESSIONS: expected_sessions(VIEWS, gap_ms=12_000),
}


def run(spark: "SparkSession", job: WindowsJob, *, is_final: bool = False) -> None:
    query = start_windows(spark, job, once=True, is_final=is_final)
    assert query.awaitTermination(300), "the job did not end"


@pytest.mark.parametrize("window", [TEN_MINUTES, SLIDING, SESSIONS], ids=["tumbling", "sliding", "session"])
def test_windows_measure_what_plain_python_measures(spark: "SparkSession", broker: Broker, tmp_path: Path, window: Window) -> None:
    topic = create_topic(broker, partitions=3)
    job = windows_job(broker, topic, tmp_path, window)
    # The rest comes in a second run, with some that came already: they are known by their keys.
    send(broker, topic, VIEWS[:600])
    with Traffic(broker, topic, partition=2, per_second=20):
        run(spark, job)
        so_far = window_results(broker, job.output.topic)
        assert 0 < len(so_far) < len(EXPECTED[window])
        send(broker, topic, VIEWS[590:])
        run(spark, job, is_final=True)
    found = window_results(broker, job.output.topic)
    assert found == EXPECTED[window]
    assert {place: found[place] for place in so_far} == so_far


def test_late_events_are_counted_and_left_out(
    spark: "SparkSession", broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = create_topic(broker, partitions=2)
    job = windows_job(broker, topic, tmp_path)
    send(broker, topic, VIEWS)
    run(spark, job)
    before = window_results(broker, job.output.topic)
    late = [View(10_000 + number, "/a", "late", 1, 1.0, START_MS + number) for number in range(7)]
    # In time, though older than the newest event: its window is not over.
    in_time = View(20_000, "/a", "in time", 1, 1.0, max(view.at for view in VIEWS) - 30_000)
    send(broker, topic, [*late, in_time])
    code = run_job(
        lambda session: start_windows(session, job, is_final=True),
        name="views",
        master=None,
        checkpoint=job.checkpoint,
        once=True,
        quiet=False,
    )
    found = window_results(broker, job.output.topic)
    assert code == 0
    assert found == expected_windows([*VIEWS, in_time], size_ms=10 * MINUTE_MS, step_ms=10 * MINUTE_MS)
    assert {place: found[place] for place in before} == before
    assert read_job_progress(job.checkpoint).late == 7
    assert "7 late" in capfd.readouterr().err


def test_a_function_can_change_events_before_they_are_measured(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=2)
    job = replace(windows_job(broker, topic, tmp_path), measures={"views": "count"})
    send(broker, topic, VIEWS)
    query = start_windows(
        spark, job, is_final=True, transform=lambda events: events.where("bytes < 5000").withColumn("page", events["user"])
    )
    assert query.awaitTermination(300)
    few = [view._replace(page=view.user) for view in VIEWS if view.bytes < 5000]
    expected = expected_windows(few, size_ms=10 * MINUTE_MS, step_ms=10 * MINUTE_MS)
    assert counts(broker, job.output.topic) == {place: result["views"] for place, result in expected.items()}


def counts(broker: Broker, topic: str) -> dict[tuple[int, int, str], int]:
    values = results(broker, topic).values()
    return {(milliseconds(value["window_start"]), milliseconds(value["window_end"]), value["page"]): value["views"] for value in values}


def test_a_job_that_is_killed_and_run_again_gives_each_result_once_by_key(broker: Broker, tmp_path: Path) -> None:
    """Killed with messages on their way and windows open, and then run to the end; a result that came twice came the same."""
    topic = create_topic(broker, partitions=3)
    file = windows_file(broker, topic, tmp_path)
    command = [sys.executable, "-m", "millstream.cli.main", "pipeline", "windows", str(file), "--master", "local[2]"]
    output = read_job(file).output.topic
    send(broker, topic, VIEWS[:500])
    with Traffic(broker, topic, partition=2, per_second=20):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            try:
                wait_until(lambda: process.poll() is not None or has_results(broker, output), "results", deadline_s=300)
                send(broker, topic, VIEWS[500:700])
                assert process.poll() is None, process.communicate()[1][-3000:]
            finally:
                # Spark's JVM and its workers are the processes of this session.
                os.killpg(process.pid, signal.SIGKILL)
        send(broker, topic, VIEWS[700:])
        done = subprocess.run([*command, "--final"], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert window_results(broker, output) == EXPECTED[TEN_MINUTES]


def has_results(broker: Broker, topic: str) -> bool:
    """Whether the topic exists and has something in it; the job creates it."""
    found = ends(broker, topic)
    return bool(found and found[0])
