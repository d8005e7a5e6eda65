"""Names and labels that boards and alert rules of others rely on: these cannot be chosen, and a renamed metric is a board without data."""

import re

import pytest

from millstream.broker.metrics.sample import GroupSample
from millstream.monitoring.families import FAMILIES, Snapshot, write
from millstream.monitoring.lag import PartitionLag
from millstream.monitoring.lines import Lines
from millstream.monitoring.request_times import RecentTimes
from millstream.topic_partition import TopicPartition
from tests.unit.monitoring.samples import partition_sample, sample_of
from tests.unit.monitoring.test_families import VALUES

PARTITION, GROUP = ("topic", "partition"), ("consumergroup", "topic", "partition")
PER_PARTITION = (
    "current_offset",
    "oldest_offset",
    "leader",
    "replicas",
    "in_sync_replica",
    "under_replicated_partition",
    "leader_is_preferred",
)
KAFKA_EXPORTER = {
    "kafka_topic_partitions": ("topic",),
    **{f"kafka_topic_partition_{name}": PARTITION for name in PER_PARTITION},
    "kafka_consumergroup_current_offset": GROUP,
    "kafka_consumergroup_lag": GROUP,
    "kafka_consumergroup_lag_sum": ("consumergroup", "topic"),
    "kafka_consumergroup_members": ("consumergroup",),
}
KAFKA_LAG_EXPORTER = {
    "kafka_consumergroup_group_lag_seconds": ("cluster_name", "group", "topic", "partition"),
    "kafka_consumergroup_group_max_lag_seconds": ("cluster_name", "group"),
}
STRIMZI_COUNTERS = {
    f"kafka_server_brokertopicmetrics_{name}_total": ("topic",)
    for name in (
        "messagesin",
        "bytesin",
        "bytesout",
        "totalproducerequests",
        "totalfetchrequests",
        "failedproducerequests",
        "failedfetchrequests",
    )
}
STRIMZI_GAUGES: dict[str, tuple[str, ...]] = {
    **{
        f"kafka_server_replicamanager_{name}": ()
        for name in ("leadercount", "partitioncount", "underreplicatedpartitions", "underminisrpartitioncount")
    },
    "kafka_controller_kafkacontroller_activecontrollercount": (),
    "kafka_controller_kafkacontroller_offlinepartitionscount": (),
    "kafka_log_logmanager_offlinelogdirectorycount": (),
    "kafka_log_log_size": PARTITION,
}
GAUGES = {**KAFKA_EXPORTER, **KAFKA_LAG_EXPORTER, **STRIMZI_GAUGES}
TIMES = {
    "kafka_network_requestmetrics_totaltimems": ("request", "quantile"),
    "kafka_network_requestmetrics_totaltimems_count": ("request",),
    "millstream_request_seconds_bucket": ("request", "le"),
}


@pytest.fixture(scope="module")
def published() -> dict[str, set[tuple[str, ...]]]:
    """The names on a page, and the labels of each."""
    sample = sample_of(
        [partition_sample("clicks", end=5)],
        [GroupSample("g", 2, [("clicks", 0, 3)])],
        topics={"clicks": 1},
        values=VALUES,
        requests={"Produce": [0] * 10 + [4] + [0] * 52 + [2_000]},
    )
    times = RecentTimes()
    times.note(0, sample.broker.requests)
    text = write(Snapshot(sample, [PartitionLag("g", TopicPartition("clicks", 0), 3, 2, 1.5)], times), Lines())
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            found.setdefault(name, set()).add(tuple(re.findall(r'(\w+)="', labels)))
    return found


@pytest.mark.parametrize(("name", "labels"), [*GAUGES.items(), *STRIMZI_COUNTERS.items(), *TIMES.items()])
def test_name_has_the_labels_that_others_know(published: dict[str, set[tuple[str, ...]]], name: str, labels: tuple[str, ...]) -> None:
    assert published.get(name) == {labels}


def test_kinds_are_those_that_others_know() -> None:
    assert {FAMILIES[name][0] for name in GAUGES} == {"gauge"}
    assert {FAMILIES[name][0] for name in STRIMZI_COUNTERS} == {"counter"}
