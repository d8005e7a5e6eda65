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

from millstream.lake.errors import TableMismatch
from millstream.registry.avro_deserializer import AvroDeserializer
from millstream.registry.client import RegistryClient
from millstream.spark.jobs.description.job_file import read_job, read_job_of
from millstream.spark.jobs.description.topic_input import TopicInput
from millstream.spark.jobs.description.windows_job import Window, WindowsJob
from millstream.spark.jobs.running.progress import read_job_progress
from millstream.spark.jobs.running.runner import run_job
from millstream.spark.jobs.streams.closing import with_closing_row
from millstream.spark.jobs.streams.events import Transform, with_event_time
from millstream.spark.jobs.streams.windows import start_windows
from tests.brokers import Broker, StartBroker
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
    send_in_order,
    window_results,
)
from tests.pipeline.windows_jobs import TEN_MINUTES, windows_file, windows_job
from tests.spark.avro_messages import message, record, register
from tests.spark.read_back import ends
from tests.spark.topic_content import Message, read, write
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


def test_what_is_left_out_is_counted_and_malformed_messages_are_kept(
    spark: "SparkSession", broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, dead_letters = create_topic(broker, partitions=2), create_topic(broker)
    job = windows_job(broker, topic, tmp_path)
    job = replace(job, input=replace(job.input, malformed="dead-letters", dead_letters=dead_letters, deduplicate=False))
    send(broker, topic, VIEWS)
    run(spark, job)
    before = window_results(broker, job.output.topic)
    late = [View(10_000 + number, "/a", "late", 1, 1.0, START_MS + number) for number in range(7)]
    # In time, though older than the newest event: its window is not over.
    in_time = View(20_000, "/a", "in time", 1, 1.0, max(view.at for view in VIEWS) - 30_000)
    send(broker, topic, [*late, in_time])
    write(
        broker,
        topic,
        [
            Message(b'{"page": 1', b"key", 1),
            Message(b"\xff", None, 0),
            *[Message(b'{"page": "/a"%s}' % time) for time in (b"", b', "at": null', b', "at": 1000000000000000000')],
        ],
    )
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
    progress = read_job_progress(job.checkpoint)
    assert (progress.late, progress.malformed, progress.untimed) == (7, 2, 3)
    assert "2 malformed, 7 late, 3 without a time" in capfd.readouterr().err
    letters = {letter.value: (letter.key, dict(letter.headers or ())) for letter in read(broker, dead_letters)}
    assert {value: key for value, (key, _) in letters.items()} == {b'{"page": 1': b"key", b"\xff": None}
    [bad] = [row for row in read(broker, topic, partitions=2) if row.value == b'{"page": 1']
    about = {name.removeprefix("millstream."): value for name, value in letters[b'{"page": 1'][1].items()}
    assert b"not json: " in (about.pop("reason") or b"")
    place = {"topic": topic, "partition": bad.partition, "offset": bad.offset, "timestamp": bad.timestamp_ms}
    assert about == {name: str(value).encode() for name, value in place.items()}


def test_a_function_changes_events_before_they_are_measured(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=2)
    job = replace(windows_job(broker, topic, tmp_path), measures={"views": "count"})

    def few(events: "DataFrame") -> "DataFrame":
        return events.where("bytes < 5000").withColumn("page", events["user"])

    send(broker, topic, VIEWS)
    run(spark, job, is_final=True, transform=few)
    expected = expected_windows([v._replace(page=v.user) for v in VIEWS if v.bytes < 5000], size_ms=10 * MINUTE_MS, step_ms=10 * MINUTE_MS)
    assert window_views(broker, job.output.topic) == {place: result["views"] for place, result in expected.items()}


def test_results_are_in_the_table_once_and_on_the_topic_when_the_job_was_killed_between_the_two(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    """Killed with the whole of Spark after the topic was written, and once more after the table was; then it goes on."""
    topic = create_topic(broker, partitions=2)
    file = windows_file(broker, topic, tmp_path, measures='views = "count"', table=str(tmp_path / "table"))
    job = read_job_of(WindowsJob, file)
    create_topic(broker, name=job.output.topic)
    send(broker, topic, VIEWS)
    for stage in ("topic", "table"):
        command = [sys.executable, "-m", "tests.pipeline.dying_windows", stage, str(file)]
        died = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, start_new_session=True)
        assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]
    run(spark, job)
    wanted = {place: result["views"] for place, result in EXPECTED[TEN_MINUTES].items()}
    rows = DeltaTable(job.output.table).to_pyarrow_table().to_pylist()
    assert {(in_ms(row["window_start"]), in_ms(row["window_end"]), row["page"]): row["views"] for row in rows} == wanted
    assert len(rows) == len(wanted)
    # At least once: what was written before the first kill was written again, under the same keys and with the same values.
    assert window_views(broker, job.output.topic) == wanted
    assert len(wanted) < len(read(broker, job.output.topic)) <= 2 * len(wanted)
    with pytest.raises(TableMismatch, match="has rows already, and the checkpoint of this job is new"):
        start_windows(spark, replace(job, checkpoint=str(tmp_path / "other")))
    with pytest.raises(TableMismatch, match="and the results have"):
        start_windows(spark, replace(job, measures={"views": "max(price)"}))


def test_the_example_with_a_function_runs_as_a_program(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    topic = create_topic(broker, name="page-views", partitions=2)
    agents = ["Mozilla", "Googlebot/2.1"]
    seen = [(f"/{'news' if number % 3 else 'shop'}/{number}", agents[number % 5 == 0], START_MS + number * 20_000) for number in range(60)]
    write(
        broker,
        topic,
        [Message(json.dumps({"page": page, "agent": agent}).encode(), timestamp_ms=at, partition=at % 2) for page, agent, at in seen],
    )
    example = Path(__file__).parents[2] / "examples" / "pipeline" / "views_per_section.py"
    command = [sys.executable, str(example), broker.bootstrap_servers, str(tmp_path / "checkpoint"), "--final"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    views = [View(0, page.split("/")[1], "", 0, 0.0, at) for page, agent, at in seen if agent == "Mozilla"]
    expected = expected_windows(views, size_ms=10 * MINUTE_MS, step_ms=MINUTE_MS)
    found = {(in_ms(one["window_start"]), one["section"]): one["views"] for one in results(broker, "views-per-section").values()}
    assert found == {(start, section): result["views"] for (start, _, section), result in expected.items()}


def window_views(broker: Broker, topic: str) -> dict[tuple[int, int, str], int]:
    """The results of a job that only counts."""
    found = results(broker, topic).values()
    return {(in_ms(one["window_start"]), in_ms(one["window_end"]), one["page"]): one["views"] for one in found}


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


def test_a_time_past_the_year_9999_does_not_move_the_watermark(spark: "SparkSession") -> None:
    events = spark.sql("SELECT explode(array(timestamp_micros(9223372036854775000), timestamp'2026-05-04 12:00:00Z', null)) AS at")
    timed = with_event_time(events, TopicInput("views", schema="at TIMESTAMP", time="at"), "input")
    assert [row["at"].isoformat()[:10] for row in timed.collect()] == ["2026-05-04"]


def test_a_field_that_is_called_like_a_mark_stays(spark: "SparkSession", tmp_path: Path) -> None:
    events = spark.readStream.format("rate").load().selectExpr("timestamp AS event_time", "'yes' AS is_closing")
    assert with_closing_row(spark, events, str(tmp_path), name="input", watermark_ms=0).columns == ["event_time", "is_closing"]
