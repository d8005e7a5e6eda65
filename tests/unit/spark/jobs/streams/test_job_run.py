"""What is wrong with a job is said before Spark starts, and before anything is created."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.errors import UsageError
from millstream.lake.errors import TableMismatch
from millstream.spark.jobs.description.job_settings import JobOutput
from millstream.spark.jobs.description.topic_input import TopicInput
from millstream.spark.jobs.description.windows_job import Window, WindowsJob
from millstream.spark.jobs.streams.job_run import check_job
from millstream.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def job(broker: Broker, tmp_path: Path) -> WindowsJob:
    with Cluster(broker.bootstrap_servers) as cluster:
        find_or_create(cluster, "views", partitions=1, configs={})
    return WindowsJob(
        name="counts",
        brokers=broker.bootstrap_servers,
        checkpoint=str(tmp_path / "checkpoint"),
        output=JobOutput(f"counts-{tmp_path.name}", table=str(tmp_path / "table")),
        input=TopicInput("views", format="string"),
        window=Window(size="1 hour"),
        measures={"views": "count"},
    )


def topics(broker: Broker) -> set[str]:
    with Cluster(broker.bootstrap_servers) as cluster:
        return set(cluster.refresh().topics)


def test_a_job_that_can_run_gets_its_topic_and_may_be_checked_again(broker: Broker, job: WindowsJob) -> None:
    check_job(job)
    assert job.output.topic in topics(broker)
    check_job(job)


def test_a_table_that_cannot_take_the_results_is_said_and_nothing_is_created(broker: Broker, job: WindowsJob) -> None:
    write_deltalake(job.output.table, pa.table({"page": ["/"], "views": [1]}))
    with pytest.raises(TableMismatch, match="has page, views, and the results have window_start, window_end, views"):
        check_job(job)
    assert job.output.topic not in topics(broker)
    assert not Path(job.checkpoint).exists()


def test_results_are_not_appended_once_more_under_a_new_checkpoint(job: WindowsJob) -> None:
    write_deltalake(job.output.table, pa.table({"window_start": [0], "window_end": [1], "views": [1]}))
    with pytest.raises(TableMismatch, match="has rows already, and the checkpoint of this job is new"):
        check_job(job)
    Path(job.checkpoint).mkdir()
    Path(job.checkpoint, "metadata").touch()
    check_job(job)


def test_a_checkpoint_of_another_job_is_said_and_nothing_is_created(broker: Broker, job: WindowsJob) -> None:
    check_job(job)
    other = replace(job, window=Window(size="1 day"), output=JobOutput("other"))
    with pytest.raises(UsageError, match=r"is the checkpoint of a job that differs: window.size was \"1 hour\" and is \"1 day\""):
        check_job(other)
    assert "other" not in topics(broker)
