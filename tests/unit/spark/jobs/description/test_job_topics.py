"""What is asked of brokers and registry before a job starts: from a broker in this process."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.errors import UsageError
from millstream.registry.client import RegistryClient
from millstream.spark.jobs.description.job_settings import JobOutput
from millstream.spark.jobs.description.job_topics import JobTopics, retention_warnings
from millstream.spark.jobs.description.topic_input import TopicInput
from millstream.spark.jobs.description.windows_job import Window, WindowsJob
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
        assert topics.check() == []
        topics.create()
        topics.create()
        assert sorted(topics.topic_ids()) == ["views"]
    with JobTopics(replace(job, input=replace(job.input, topic="counts"), output=JobOutput("others"))) as results:
        assert results._options_of("counts")["cleanup.policy"] == "compact"
        assert len(results._existing("input").partitions) == 3


def test_a_topic_that_is_not_there_is_said_with_its_section(job: WindowsJob) -> None:
    with JobTopics(replace(job, input=replace(job.input, topic="veiws"))) as topics, pytest.raises(UsageError) as caught:
        topics.check()
    assert str(caught.value).startswith(f"[input] topic: there is no topic 'veiws' at {job.brokers}. Did you mean 'views'? To create it: ")


def test_dead_letters_have_a_topic_before_the_job_starts(broker: Broker, job: WindowsJob) -> None:
    with JobTopics(replace(job, input=replace(job.input, malformed="dead-letters"))) as topics:
        topics.create()
    with Cluster(broker.bootstrap_servers) as cluster:
        assert len(cluster.topic("views-dead-letters").partitions) == 1


def test_a_registry_that_does_not_answer_is_said_before_spark_starts(job: WindowsJob) -> None:
    away = replace(job, registry="http://127.0.0.1:1", input=replace(job.input, format="avro"))
    with JobTopics(away) as topics, pytest.raises(UsageError, match=r"registry: the schema of views was not found there: .*127\.0\.0\.1:1"):
        topics.check()


def test_columns_of_avro_are_looked_up_in_the_registry(broker: Broker, job: WindowsJob) -> None:
    with RegistryClient(broker.registry_url) as registry:
        registry.register("views-value", '{"type": "record", "name": "v", "fields": [{"name": "page", "type": "string"}]}')
    avro = replace(job, input=replace(job.input, format="avro"), window=replace(job.window, by=("pgae",)))
    with JobTopics(avro) as topics, pytest.raises(UsageError, match=r"\[window\] by: .*no column 'pgae'. Did you mean 'page'"):
        topics.check()


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
