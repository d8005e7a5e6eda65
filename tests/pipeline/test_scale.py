"""The same jobs at another scale: a Spark cluster with two workers, three brokers of which one is killed meanwhile, and Apache Kafka."""

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake import DeltaTable

from tests.brokers import Broker, KafkaBroker
from tests.cluster.brokers import MillstreamBrokers
from tests.pipeline.cluster_jobs import make_join, make_windows
from tests.pipeline.site_activity import (
    MINUTE_MS,
    START_MS,
    Click,
    View,
    expected_windows,
    make_views,
    milliseconds,
    results,
    send,
    send_in_order,
)
from tests.spark.standalone_cluster import spark_environment, submit_command
from tests.topics import create_assigned_topic, fresh_name
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).with_name("cluster_jobs.py")
VIEWS = make_views(600, step_ms=3_000)
"""Half an hour."""
LATER_MS = START_MS + 10 * MINUTE_MS
DRAW = random.Random(5)
CLICKS = [Click(view.user, view.page, f"button-{view.number}", view.at + DRAW.randrange(6 * MINUTE_MS)) for view in VIEWS[::7]]
ENOUGH_S = 600
LOG = "driver.log"
OPTIONS = {"min.insync.replicas": 2, "offsets.topic.num.partitions": 2, "group.initial.rebalance.delay.ms": 0}


class Jobs(NamedTuple):
    """The jobs on their cluster."""

    process: "subprocess.Popen[str]"
    directory: Path

    def have_begun(self, *names: str) -> bool:
        """Whether the first micro-batch of each of these jobs is done."""
        assert self.process.poll() is None, self.said()
        return all((self.directory / name / "commits" / "0").exists() for name in names)

    def finish(self) -> dict[str, object]:
        """What they print at their end."""
        printed, _ = self.process.communicate(timeout=ENOUGH_S)
        assert self.process.returncode == 0, printed[-2000:] + self.said()
        outcome: dict[str, object] = json.loads(next(line for line in printed.splitlines() if line.startswith("OUTCOME "))[8:])
        return outcome

    def said(self) -> str:
        """The last words of the driver."""
        return (self.directory / LOG).read_text()[-3000:]


@contextmanager
def running_jobs(master: str, brokers: str, views: str, clicks: str, directory: Path) -> Iterator[Jobs]:
    command = submit_command(master, SCRIPT, brokers, views, clicks, str(directory))
    # A pipe would be full before anyone reads it.
    with (
        (directory / LOG).open("w") as log,
        subprocess.Popen(
            command, env=spark_environment(), text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            yield Jobs(process, directory)
        finally:
            if process.poll() is None:
                # The driver's JVM and its Python.
                os.killpg(process.pid, signal.SIGKILL)


def check_results(broker: Broker, bootstrap: str, views: str, clicks: str, directory: Path, *, loaded: Sequence[View] = VIEWS) -> None:
    """Everything that the jobs gave is what plain Python computes; `loaded` is what there was when the load ran."""
    windows, join = make_windows(bootstrap, views, directory), make_join(bootstrap, views, clicks, directory)
    lake = DeltaTable(str(directory / "lake" / views)).to_pyarrow_table(columns=["at", "kafka_partition", "kafka_offset"]).to_pylist()
    assert sorted(row["at"] for row in lake) == sorted(view.at for view in loaded)
    assert len({(row["kafka_partition"], row["kafka_offset"]) for row in lake}) == len(loaded)
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
    """Broker 2 leads what is read and what is written; it is killed after the first of some micro-batches of the load, and comes back. Then
    broker 3 leads, and is killed under windows and a join that run; the rest of the events come after that."""
    early, late = [view for view in VIEWS if view.at < LATER_MS], [view for view in VIEWS if view.at >= LATER_MS]
    views, clicks = fresh_name("views"), fresh_name("clicks")
    with MillstreamBrokers(tmp_path / "brokers", OPTIONS, session_timeout_ms=3000) as cluster:
        survivor = cluster.nodes[1]
        with survivor.connect() as connection:
            create_assigned_topic(connection, (2, 3, 1), (2, 1, 3), name=views)
            create_assigned_topic(connection, (2, 3, 1), (3, 1, 2), name=clicks)
            for output in ("windows", "join"):
                create_assigned_topic(connection, (2, 3, 1), name=f"{views}-{output}")
        cluster.await_healthy([views, clicks], deadline_s=60)
        send(survivor, views, early)
        send(survivor, clicks, [click for click in CLICKS if click.at < LATER_MS])
        with running_jobs(master, cluster.bootstrap_servers, views, clicks, tmp_path) as jobs:
            wait_until(lambda: jobs.have_begun("load"), "the first micro-batch of the load", deadline_s=ENOUGH_S)
            cluster.kill(2)
            wait_until(lambda: jobs.have_begun("windows", "join"), "the first micro-batches of windows and join", deadline_s=ENOUGH_S)
            cluster.start(2)
            cluster.await_healthy([views, clicks, f"{views}-windows", f"{views}-join"], deadline_s=180)
            cluster.kill(3)
            send_in_order(survivor, views, late)
            send_in_order(survivor, clicks, sorted((click for click in CLICKS if click.at >= LATER_MS), key=lambda click: click.at))
            wait_until(lambda: jobs.have_begun() and has_later_results(survivor, views), "results of later events", deadline_s=ENOUGH_S)
            (tmp_path / "stop").touch()
            outcome = jobs.finish()
        assert outcome == {"executors": 2, "shuffle partitions": "2"}
        check_results(survivor, cluster.bootstrap_servers, views, clicks, tmp_path, loaded=early)


def has_later_results(broker: Broker, views: str) -> bool:
    """Whether windows and join have given something that is made of later events."""
    windows, pairs = results(broker, f"{views}-windows").values(), results(broker, f"{views}-join").values()
    is_counted = any(milliseconds(row["window_start"]) >= LATER_MS for row in windows)
    return is_counted and any(row["at"] >= LATER_MS for row in pairs)


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
        (tmp_path / "stop").touch()
        with running_jobs(master, kafka.bootstrap_servers, views, clicks, tmp_path) as jobs:
            jobs.finish()
        check_results(kafka, kafka.bootstrap_servers, views, clicks, tmp_path)
    finally:
        kafka.stop()
