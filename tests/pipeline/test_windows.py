"""Windows on a real Spark, compared with what plain Python computes from the same events, while another producer writes to the topic."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from millstream.registry.avro_deserializer import AvroDeserializer
from millstream.registry.client import RegistryClient
from millstream.spark.jobs.events import Transform
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
    send,
    send_in_order,
    window_results,
)
from tests.pipeline.windows_jobs import TEN_MINUTES, windows_file, windows_job
from tests.spark.avro_messages import message, record, register
from tests.spark.read_back import ends
from tests.spark.topic_content import read, write
from tests.spark.traffic import Traffic
from tests.topics import create_topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def run(spark: "SparkSession", job: WindowsJob, *, is_final: bool = False, transform: Transform | None = None) -> None:
    query = start_windows(spark, job, once=True, is_final=is_final, transform=transform)
    assert query.awaitTermination(300), "the job did not end"


def test_windows_measure_what_plain_python_measures(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=3)
    job = windows_job(broker, topic, tmp_path)
    # The rest comes in a second run, with some that came already: they are known by their keys.
    send(broker, topic, VIEWS[:600])
    with Traffic(broker, topic, partition=2, per_second=20):
        run(spark, job)
        so_far = window_results(broker, job.output.topic)
        assert 0 < len(so_far) < len(EXPECTED[TEN_MINUTES])
        send(broker, topic, VIEWS[590:])
        run(spark, job, is_final=True)
    found = window_results(broker, job.output.topic)
    assert found == EXPECTED[TEN_MINUTES]
    assert {place: found[place] for place in so_far} == so_far


@pytest.mark.parametrize("window", [SLIDING, SESSIONS], ids=["sliding", "session"])
def test_other_windows_measure_what_plain_python_measures(spark: "SparkSession", broker: Broker, tmp_path: Path, window: Window) -> None:
    topic = create_topic(broker, partitions=2)
    job = windows_job(broker, topic, tmp_path, window)
    send(broker, topic, VIEWS)
    run(spark, job, is_final=True)
    assert window_results(broker, job.output.topic) == EXPECTED[window]


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


def test_a_table_and_a_topic_get_the_results_of_a_function_once(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    """The function changes events before they are measured. The run dies between the table's commit and Spark's, and goes on."""
    topic = create_topic(broker, partitions=2)
    job = replace(windows_job(broker, topic, tmp_path), measures={"views": "count"})
    job = replace(job, output=replace(job.output, table=str(tmp_path / "table")))

    def few(events: "DataFrame") -> "DataFrame":
        return events.where("bytes < 5000").withColumn("page", events["user"])

    send(broker, topic, VIEWS)
    run(spark, job, is_final=True, transform=few)
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()
    run(spark, job, transform=few)
    expected = expected_windows([v._replace(page=v.user) for v in VIEWS if v.bytes < 5000], size_ms=10 * MINUTE_MS, step_ms=10 * MINUTE_MS)
    wanted = {place: result["views"] for place, result in expected.items()}
    rows = DeltaTable(job.output.table).to_pyarrow_table().to_pylist()
    on_topic = [json.loads(row.value or b"") for row in read(broker, job.output.topic)]
    for found in (rows, on_topic):
        assert {(in_ms(row["window_start"]), in_ms(row["window_end"]), row["page"]): row["views"] for row in found} == wanted
        assert len(found) == len(wanted)


def in_ms(moment: str | datetime) -> int:
    return milliseconds(moment if isinstance(moment, str) else moment.isoformat())


def test_avro_is_read_and_written_by_the_registry(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    topic = create_topic(broker, partitions=2)
    job = windows_job(broker, topic, tmp_path)
    when = {"type": "long", "logicalType": "timestamp-millis"}
    schema = record(page="string", user="string", bytes="long", price="double", at=when)
    schema_id = register(registry, f"{topic}-value", schema)
    write(broker, topic, [view.message()._replace(value=message(schema_id, schema, view._asdict())) for view in VIEWS])
    job = replace(
        job,
        registry=registry_url,
        input=replace(job.input, format="avro", schema="", deduplicate=("at", "user")),
        measures={"views": "count", "top": "top(3, user)"},
        output=replace(job.output, format="avro"),
    )
    run(spark, job, is_final=True)
    decode = AvroDeserializer(registry)
    found = [decode(row.value) for row in read(broker, job.output.topic)]
    assert {
        (in_ms(row["window_start"]), in_ms(row["window_end"]), row["page"]): {"views": row["views"], "top": row["top"]} for row in found
    } == {place: {name: result[name] for name in ("views", "top")} for place, result in EXPECTED[TEN_MINUTES].items()}


def test_a_job_that_is_killed_and_run_again_gives_each_result_once_by_key(broker: Broker, tmp_path: Path) -> None:
    """Killed with messages on their way and windows open, and then run to the end; a result that came twice came the same."""
    topic = create_topic(broker, partitions=3)
    file = windows_file(broker, topic, tmp_path)
    command = [sys.executable, "-m", "millstream.cli.main", "pipeline", "windows", str(file), "--master", "local[2]"]
    output = read_job(file).output.topic
    send_in_order(broker, topic, VIEWS[:500])
    with Traffic(broker, topic, partition=2, per_second=20):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            try:
                wait_until(lambda: process.poll() is not None or has_results(broker, output), "results", deadline_s=300)
                send_in_order(broker, topic, VIEWS[500:700])
                assert process.poll() is None, process.communicate()[1][-3000:]
            finally:
                # Spark's JVM and its workers are the processes of this session.
                os.killpg(process.pid, signal.SIGKILL)
        send_in_order(broker, topic, VIEWS[700:])
        done = subprocess.run([*command, "--final"], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert window_results(broker, output) == EXPECTED[TEN_MINUTES]


def has_results(broker: Broker, topic: str) -> bool:
    """Whether the topic exists and has something in it; the job creates it."""
    found = ends(broker, topic)
    return bool(found and found[0])
