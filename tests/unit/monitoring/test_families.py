import re

from millstream.broker.metrics.sample import GroupSample, Sample
from millstream.monitoring.families import FAMILIES, Snapshot, write
from millstream.monitoring.lag import PartitionLag
from millstream.monitoring.lines import Lines
from millstream.monitoring.request_times import RecentTimes
from millstream.topic_partition import TopicPartition
from tests.unit.monitoring.samples import partition_sample, sample_of

VALUES = {
    "kafka.controller:type=KafkaController,name=ActiveControllerCount": 1,
    "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize": 0,
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount": 0,
    "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions": 7,
    "kafka.server:type=FollowerReplication,name=byte-total": 1,
    "kafka.server:type=FollowerReplication,name=throttled-total": 1,
    "kafka.server:type=LeaderReplication,name=byte-total": 1,
    "kafka.server:type=LeaderReplication,name=throttled-total": 1,
    "kafka.server:type=socket-server-metrics,name=connection-count": 4,
    "kafka.server:type=socket-server-metrics,name=incoming-byte-total": 9,
}
ON_PAGES_ONLY = {"millstream_sample_age_seconds", "millstream_build_info"}


def series(sample: Sample, *lags: PartitionLag) -> dict[str, str]:
    times = RecentTimes()
    times.note(0, sample.broker.requests)
    text = write(Snapshot(sample, lags, times), Lines())
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_every_metric_is_published_and_no_other() -> None:
    sample = sample_of(
        [partition_sample("clicks", end=5)],
        [GroupSample("g", 2, [("clicks", 0, 3)])],
        topics={"clicks": 1},
        values=VALUES,
        requests={"Produce": [0] * 10 + [4] + [0] * 52 + [2_000]},
    )
    found = {
        re.sub(r"(_bucket|_sum|_count)?\{.*", "", name)
        for name in series(sample, PartitionLag("g", TopicPartition("clicks", 0), 3, 2, 1.5))
    }
    # These two end with a word that a histogram adds to its name.
    wanted = {name.removesuffix("_sum").removesuffix("_count") for name in FAMILIES.keys() - ON_PAGES_ONLY}
    assert {name.removesuffix("_sum").removesuffix("_count") for name in found} == wanted


def test_partition_is_published_by_its_leader_and_its_size_by_every_replica() -> None:
    sample = sample_of(
        [partition_sample("a", leader=1, replicas=3, in_sync=2, end=7), partition_sample("b", leader=2, replicas=3, in_sync=2)]
    )
    found = series(sample)
    assert found['kafka_topic_partition_current_offset{topic="a",partition="0"}'] == "7"
    assert found['kafka_topic_partition_under_replicated_partition{topic="a",partition="0"}'] == "1"
    assert 'kafka_topic_partition_current_offset{topic="b",partition="0"}' not in found
    assert {topic: found[f'kafka_log_log_size{{topic="{topic}",partition="0"}}'] for topic in "ab"} == {"a": "100", "b": "100"}
    counts = ("leadercount", "partitioncount", "underreplicatedpartitions", "underminisrpartitioncount")
    assert [found[f"kafka_server_replicamanager_{name}"] for name in counts] == ["1", "2", "1", "0"]


def test_replicas_that_a_reassignment_adds_are_not_missing_yet() -> None:
    moved = partition_sample("a", leader=1, replicas=4, in_sync=2)._replace(adding=2, is_reassigning=True)
    found = series(sample_of([moved, partition_sample("b", leader=1, replicas=3, in_sync=3)]))
    assert [found[f"kafka_server_replicamanager_{name}"] for name in ("underreplicatedpartitions", "reassigningpartitions")] == ["0", "1"]


def test_what_is_about_the_cluster_is_published_by_the_controller() -> None:
    assert series(sample_of(topics={"a": 3}))['kafka_topic_partitions{topic="a"}'] == "3"
    assert "kafka_brokers" not in series(sample_of(is_controller=False))


def test_counts_of_partitions_are_added_up_by_topic() -> None:
    sample = sample_of([partition_sample("a", 0, messages_in=2, bytes_out=10), partition_sample("a", 1, messages_in=3, bytes_out=20)])
    found = series(sample)
    assert found['kafka_server_brokertopicmetrics_messagesin_total{topic="a"}'] == "5"
    assert found['kafka_server_brokertopicmetrics_bytesout_total{topic="a"}'] == "30"


def test_lags_are_added_up_by_topic_and_the_largest_one_in_seconds_is_named() -> None:
    lags = [
        PartitionLag("g", TopicPartition("a", 0), 1, 5, 2.5),
        PartitionLag("g", TopicPartition("a", 1), 1, 7, 9.25),
        PartitionLag("g", TopicPartition("b", 0), 1, None, None),
    ]
    found = series(sample_of(groups=[GroupSample("g", 1, [])]), *lags)
    assert found['kafka_consumergroup_lag{consumergroup="g",topic="a",partition="1"}'] == "7"
    assert found['kafka_consumergroup_lag_sum{consumergroup="g",topic="a"}'] == "12"
    assert found['kafka_consumergroup_current_offset{consumergroup="g",topic="b",partition="0"}'] == "1"
    assert 'kafka_consumergroup_lag{consumergroup="g",topic="b",partition="0"}' not in found
    assert found['kafka_consumergroup_group_max_lag_seconds{cluster_name="the-cluster",group="g"}'] == "9.25"


def test_latencies_are_a_histogram_and_quantiles() -> None:
    found = series(sample_of(requests={"Produce": [0] * 10 + [4] + [0] * 52 + [3_000]}))
    assert found['millstream_request_seconds_bucket{request="Produce",le="0.000512"}'] == "0"
    assert found['millstream_request_seconds_bucket{request="Produce",le="0.001024"}'] == "4"
    assert found['millstream_request_seconds_bucket{request="Produce",le="+Inf"}'] == "4"
    assert found['millstream_request_seconds_sum{request="Produce"}'] == "0.003"
    assert found['millstream_request_seconds_count{request="Produce"}'] == "4"
    assert found['kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.5"}'] == "0.768"
    assert found['kafka_network_requestmetrics_totaltimems_count{request="Produce"}'] == "4"
