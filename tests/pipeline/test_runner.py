"""Jobs run by the runner: to their end, stopped, failed, and seen from outside."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.errors import CommandFailed
from millstream.spark.jobs.running.progress import FILE_NAME, read_job_progress
from millstream.spark.jobs.running.runner import run_job
from tests.brokers import Broker
from tests.spark.reading import stream
from tests.spark.topic_content import write_numbers
from tests.topics import create_topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.slow


def start_copy(session: "SparkSession", broker: Broker, topic: str, checkpoint: str, *, once: bool) -> "StreamingQuery":
    """A job that reads a topic and keeps nothing of it."""
    rows = stream(session, broker, topic, group__id=f"group-{topic}", maxOffsetsPerTrigger=20)
    writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="50 milliseconds")).start()


def run_copy(broker: Broker, topic: str, checkpoint: str, *, once: bool, brokers: str | None = None, group: str | None = None) -> int:
    """Run that job; its exit code."""
    return run_job(
        lambda session: start_copy(session, broker, topic, checkpoint, once=once),
        name="copy",
        master=None,
        checkpoint=checkpoint,
        once=once,
        quiet=True,
        brokers=brokers,
        group=group,
    )


def test_a_job_that_runs_once_ends_and_says_what_it_did(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic = create_topic(broker, partitions=2)
    write_numbers(broker, topic, range(50))
    code = run_copy(broker, topic, checkpoint, once=True)
    progress = read_job_progress(checkpoint)
    assert (code, progress.state, progress.rows, progress.batches) == (0, "done", 50, 3)
    assert progress.last is not None
    assert progress.last.lag_messages == 0
    # The session was there before, and stays.
    assert spark.range(3).count() == 3


def test_a_job_that_fails_says_why_in_a_sentence(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    with pytest.raises(CommandFailed, match=r"^copy failed: no-such-topic: no such topic or partition at "):
        run_copy(broker, "no-such-topic", checkpoint, once=True)
    progress = read_job_progress(checkpoint)
    assert progress.state == "failed"
    assert progress.error is not None
    assert "no such topic" in progress.error


def test_a_signal_stops_a_job_and_status_shows_it_from_outside(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic = create_topic(broker)
    write_numbers(broker, topic, range(30))

    def look_and_stop() -> None:
        try:
            wait_until(lambda: is_begun() and read_job_progress(checkpoint).rows == 30, "the rows", deadline_s=300)
            seen.append(subprocess.run(status, capture_output=True, text=True, timeout=60, check=False))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def is_begun() -> bool:
        return Path(checkpoint, FILE_NAME).exists()

    seen: list[subprocess.CompletedProcess[str]] = []
    status = [sys.executable, "-m", "millstream.cli.main", "pipeline", "status", "--checkpoint", checkpoint, "--output", "json"]
    observer = threading.Thread(target=look_and_stop)
    observer.start()
    code = run_copy(broker, topic, checkpoint, once=False, brokers=broker.bootstrap_servers, group=f"group-{topic}")
    observer.join()
    assert (code, read_job_progress(checkpoint).state) == (0, "stopped")
    [shown] = seen
    assert shown.returncode == 0, shown.stderr
    assert '"state": "running"' in shown.stdout
    assert '"group_lag": {"lag": ' in shown.stdout
