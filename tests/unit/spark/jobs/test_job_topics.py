"""What is asked of brokers and registry before a job starts: from a broker in this process."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from millstream.client.cluster import Cluster
from millstream.client.topic_creation import find_or_create
from millstream.errors import UsageError
from millstream.registry.client import RegistryClient
from millstream.spark.jobs.job_settings import JobOutput
from millstream.spark.jobs.job_topics import JobTopics, retention_warnings
from millstream.spark.jobs.topic_input import TopicInput
from millstream.spark.jobs.windows_job import Window, WindowsJob
from millstream.testing import Broker

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(registry=True) as running:
        yield running


@pytest.fixture(scope="module")
def job(broker: Broker) -> WindowsJob:
    with Cluster(broker.bootstrap_servers) as cluster:
        find_or_create(cluster, "views", partitions=2, configs={})
    return WindowsJob(
        name="counts",
        brokers=broker.bootstrap_servers,
        checkpoint="checkpoint",
        output=JobOutput("counts", partitions=3),
        input=TopicInput("views", format="string"),
        window=Window(size="1 hour"),
        measures={"views": "count"},
        registry=broker.registry_url,
    )


def test_the_topic_for_results_is_created_compacted(broker: Broker, job: WindowsJob) -> None:
    with JobTopics(job) as topics:
        assert topics.prepare() == []
        assert topics.prepare() == []
    with JobTopics(replace(job, input=replace(job.input, topic="counts"), output=JobOutput("others"))) as results:
        assert results._options_of("counts")["cleanup.policy"] == "compact"
        assert len(results._existing("input").partitions) == 3


def test_a_topic_that_is_not_there_is_said_with_its_section(job: WindowsJob) -> None:
    with JobTopics(replace(job, input=replace(job.input, topic="veiws"))) as topics, pytest.raises(UsageError) as caught:
        topics.prepare()
    assert str(caught.value).startswith("[input] topic: there is no topic 'veiws' at ")


def test_columns_of_avro_are_looked_up_in_the_registry(broker: Broker, job: WindowsJob) -> None:
    with RegistryClient(broker.registry_url) as registry:
        registry.register("views-value", '{"type": "record", "name": "v", "fields": [{"name": "page", "type": "string"}]}')
    avro = replace(job, input=replace(job.input, format="avro"), window=replace(job.window, by=("pgae",)))
    with JobTopics(avro) as topics, pytest.raises(UsageError, match=r"\[window\] by: .*no column 'pgae'. Did you mean 'page'"):
        topics.prepare()


def test_an_offset_is_kept_within_what_partitions_have(job: WindowsJob) -> None:
    with JobTopics(job) as topics:
        assert topics.starts_at(100) == topics.starts_at(-5) == {"input": '{"views": {"0": 0, "1": 0}}'}


@pytest.mark.parametrize(
    ("options", "is_warned"),
    [
        ({"retention.ms": str(HOUR_MS), "cleanup.policy": "delete"}, True),
        ({"retention.ms": str(2 * HOUR_MS), "cleanup.policy": "delete"}, False),
        ({"retention.ms": "-1", "cleanup.policy": "delete"}, False),
        ({"retention.ms": str(HOUR_MS), "cleanup.policy": "compact"}, False),
        ({"retention.ms": str(HOUR_MS), "cleanup.policy": "compact,delete"}, True),
        ({}, False),
    ],
)
def test_a_window_longer_than_the_retention_is_warned_of(options: dict[str, str], is_warned: bool) -> None:
    warnings = retention_warnings("views", options, span_ms=2 * HOUR_MS)
    assert bool(warnings) == is_warned
    if warnings:
        assert warnings[0].startswith("views keeps messages for 1 hour, and a window with its watermark takes 2 hours: ")
