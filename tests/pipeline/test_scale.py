"""The same jobs at another scale: a Spark cluster with two workers, three brokers of which one is killed meanwhile, and Apache Kafka."""

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake import DeltaTable

from millstream.spark.jobs.running.failure import sentence_of
from tests.brokers import Broker, KafkaBroker
from tests.cluster.brokers import MillstreamBrokers
from tests.pipeline.cluster_jobs import make_join, make_windows
from tests.pipeline.site_activity import MINUTE_MS, Click, expected_windows, make_views, milliseconds, results, send
from tests.spark.standalone_cluster import spark_environment, submit_command
from tests.topics import create_assigned_topic, fresh_name
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).with_name("cluster_jobs.py")
VIEWS = make_views(600, step_ms=3_000)
"""Half an hour."""
DRAW = random.Random(5)
CLICKS = [Click(view.user, view.page, f"button-{view.number}", view.at + DRAW.randrange(6 * MINUTE_MS)) for view in VIEWS[::7]]
ENOUGH_S = 600
OPTIONS = {"min.insync.replicas": 2, "offsets.topic.num.partitions": 2, "group.initial.rebalance.delay.ms": 0}


class Jobs(NamedTuple):
    """The jobs on their cluster."""

    process: "subprocess.Popen[str]"
    directory: Path

    def has_begun(self) -> bool:
        """Whether the first micro-batch is in the lake."""
        assert self.process.poll() is None, sentence_of(self.process.communicate()[1])
        return (self.directory / "load" / "commits" / "0").exists()

    def finish(self) -> dict[str, object]:
        """What they print at their end."""
        printed, errors = self.process.communicate(timeout=ENOUGH_S)
        assert self.process.returncode == 0, printed[-2000:] + sentence_of(errors)
        outcome: dict[str, object] = json.loads(next(line for line in printed.splitlines() if line.startswith("OUTCOME "))[8:])
        return outcome


@contextmanager
def running_jobs(master: str, brokers: str, views: str, clicks: str, directory: Path) -> Iterator[Jobs]:
    command = submit_command(master, SCRIPT, brokers, views, clicks, str(directory))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=spark_environment(), text=True, start_new_session=True, stdout=pipe, stderr=pipe) as process:
        try:
            yield Jobs(process, directory)
        finally:
            if process.poll() is None:
                # The driver's JVM and its Python.
                os.killpg(process.pid, signal.SIGKILL)


def check_results(broker: Broker, bootstrap: str, views: str, clicks: str, directory: Path) -> None:
    """Everything that the jobs gave is what plain Python computes."""
    windows, join = make_windows(bootstrap, views, directory), make_join(bootstrap, views, clicks, directory)
    loaded = DeltaTable(str(directory / "lake" / views)).to_pyarrow_table(columns=["at", "kafka_partition", "kafka_offset"]).to_pylist()
    assert sorted(row["at"] for row in loaded) == sorted(view.at for view in VIEWS)
    assert len({(row["kafka_partition"], row["kafka_offset"]) for row in loaded}) == len(VIEWS)
    expected = expected_windows(VIEWS, size_ms=10 * MINUTE_MS, step_ms=10 * MINUTE_MS)
    wanted = sorted((start, page, result["views"], result["bytes"]) for (start, _, page), result in expected.items())
    table = DeltaTable(windows.output.table).to_pyarrow_table().to_pylist()
    assert sorted((milliseconds(row["window_start"].isoformat()), row["page"], row["views"], row["bytes"]) for row in table) == wanted
    on_topic = results(broker, windows.output.topic).values()
    assert sorted((milliseconds(row["window_start"]), row["page"], row["views"], row["bytes"]) for row in on_topic) == wanted
    pairs = sorted((row["at"], row.get("button", "")) for row in results(broker, join.output.topic).values())
    assert pairs == sorted(expected_pairs())


def expected_pairs() -> Iterator[tuple[int, str]]:
    """The views with the clicks within five minutes of them, or with none."""
    for view in VIEWS:
        near = [click for click in CLICKS if (click.user, click.page) == (view.user, view.page)]
        buttons = [click.button for click in near if view.at <= click.at <= view.at + 5 * MINUTE_MS]
        yield from ((view.at, button) for button in buttons or [""])


def test_jobs_on_two_workers_are_exact_though_one_of_three_brokers_is_killed(master: str, tmp_path: Path) -> None:
    """Broker 2 leads what is read and what is written; it is killed after the first of four micro-batches of the load."""
    views, clicks = fresh_name("views"), fresh_name("clicks")
    with MillstreamBrokers(tmp_path / "brokers", OPTIONS, session_timeout_ms=3000) as cluster:
        survivor = cluster.nodes[1]
        with survivor.connect() as connection:
            create_assigned_topic(connection, (2, 3, 1), (2, 1, 3), name=views)
            create_assigned_topic(connection, (2, 3, 1), (3, 1, 2), name=clicks)
            for output in ("windows", "join"):
                create_assigned_topic(connection, (2, 3, 1), name=f"{views}-{output}")
        cluster.await_healthy([views, clicks], deadline_s=60)
        send(survivor, views, VIEWS)
        send(survivor, clicks, CLICKS)
        with running_jobs(master, cluster.bootstrap_servers, views, clicks, tmp_path) as jobs:
            wait_until(jobs.has_begun, "the first micro-batch", deadline_s=ENOUGH_S)
            cluster.kill(2)
            outcome = jobs.finish()
        assert outcome == {"executors": 2, "shuffle partitions": "2"}
        check_results(survivor, cluster.bootstrap_servers, views, clicks, tmp_path)


def test_jobs_on_two_workers_are_exact_with_apache_kafka(master: str, tmp_path: Path) -> None:
    kafka = KafkaBroker(tmp_path, {})
    kafka.start()
    try:
        views, clicks = fresh_name("views"), fresh_name("clicks")
        with kafka.connect() as connection:
            for topic in (views, clicks):
                create_assigned_topic(connection, (kafka.node_id,), (kafka.node_id,), name=topic)
            for output in ("windows", "join"):
                create_assigned_topic(connection, (kafka.node_id,), name=f"{views}-{output}")
        send(kafka, views, VIEWS)
        send(kafka, clicks, CLICKS)
        with running_jobs(master, kafka.bootstrap_servers, views, clicks, tmp_path) as jobs:
            jobs.finish()
        check_results(kafka, kafka.bootstrap_servers, views, clicks, tmp_path)
    finally:
        kafka.stop()
