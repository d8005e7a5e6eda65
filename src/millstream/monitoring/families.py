"""Every metric that is published: kafka_exporter's names, those of Kafka's JMX metrics as Strimzi spells them, and a few of our own.

Each is said once in a cluster, so that sums over all brokers are right: what is about a partition by its leader, what is about a group by
its coordinator, what is about the cluster by its controller; about logs, requests and connections each broker says its own. Where one
page is about several brokers of a machine, such figures have the number of the broker as a label.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from millstream.broker.metrics.sample import PartitionSample, Sample
from millstream.monitoring.exposition import Series, family, labels, number
from millstream.monitoring.lag import PartitionLag
from millstream.monitoring.lines import Lines
from millstream.monitoring.request_times import RecentTimes, cumulative
from millstream.topic_partition import TopicPartition

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"
SUMMARY: Final = "summary"

FAMILIES: Final[dict[str, tuple[str, str]]] = {
    # kafka_exporter
    "kafka_brokers": (GAUGE, "Brokers of the cluster that are registered."),
    "kafka_topic_partitions": (GAUGE, "Partitions of the topic."),
    "kafka_topic_partition_current_offset": (GAUGE, "High watermark: the offset after the last record that consumers may read."),
    "kafka_topic_partition_oldest_offset": (GAUGE, "Offset of the first record that is kept."),
    "kafka_topic_partition_leader": (GAUGE, "Number of the broker that leads the partition."),
    "kafka_topic_partition_replicas": (GAUGE, "Replicas of the partition."),
    "kafka_topic_partition_in_sync_replica": (GAUGE, "Replicas that are in sync."),
    "kafka_topic_partition_under_replicated_partition": (GAUGE, "1 if not all replicas are in sync."),
    "kafka_topic_partition_leader_is_preferred": (GAUGE, "1 if the first replica leads."),
    "kafka_consumergroup_current_offset": (GAUGE, "Committed offset of the group."),
    "kafka_consumergroup_lag": (GAUGE, "Offsets between the committed one and the high watermark."),
    "kafka_consumergroup_lag_sum": (GAUGE, "The lag of the group in all partitions of a topic."),
    "kafka_consumergroup_members": (GAUGE, "Members of the group."),
    # kafka-lag-exporter
    "kafka_consumergroup_group_lag_seconds": (GAUGE, "Age of the oldest record that the group has not committed."),
    "kafka_consumergroup_group_max_lag_seconds": (GAUGE, "The largest lag in seconds in any partition of the group."),
    # Kafka's JMX metrics, Strimzi's spelling
    "kafka_server_brokertopicmetrics_messagesin_total": (COUNTER, "Records that producers wrote."),
    "kafka_server_brokertopicmetrics_bytesin_total": (COUNTER, "Bytes of batches that producers wrote."),
    "kafka_server_brokertopicmetrics_bytesout_total": (COUNTER, "Bytes of batches that consumers were sent; followers do not count."),
    "kafka_server_brokertopicmetrics_totalproducerequests_total": (COUNTER, "Batches of produce requests, the refused ones too."),
    "kafka_server_brokertopicmetrics_totalfetchrequests_total": (COUNTER, "Partitions that fetches looked at."),
    "kafka_server_brokertopicmetrics_failedproducerequests_total": (COUNTER, "Batches that failed unexpectedly, as Kafka counts them."),
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": (COUNTER, "Partitions whose fetch failed unexpectedly."),
    "kafka_server_replicamanager_leadercount": (GAUGE, "Partitions that this broker leads."),
    "kafka_server_replicamanager_partitioncount": (GAUGE, "Replicas that this broker keeps."),
    "kafka_server_replicamanager_underreplicatedpartitions": (GAUGE, "Partitions led here of which not all replicas are in sync."),
    "kafka_server_replicamanager_underminisrpartitioncount": (GAUGE, "Partitions led here with fewer than min.insync.replicas in sync."),
    "kafka_server_replicamanager_reassigningpartitions": (GAUGE, "Partitions led here that are being moved to other brokers."),
    "kafka_controller_kafkacontroller_activecontrollercount": (GAUGE, "1 on the controller; the sum over all brokers has to be 1."),
    "kafka_controller_kafkacontroller_offlinepartitionscount": (GAUGE, "Partitions without a leader; the controller knows."),
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize": (
        GAUGE,
        "Ended transactions whose markers wait for a leader that can write them.",
    ),
    "kafka_log_logmanager_offlinelogdirectorycount": (GAUGE, "Data directories that failed."),
    "kafka_log_log_size": (GAUGE, "Bytes of batches on disk."),
    "kafka_network_requestmetrics_totaltimems": (SUMMARY, "Milliseconds from a request to its answer, over the last five minutes."),
    "kafka_server_fetchsessioncache_numincrementalfetchsessions": (GAUGE, "Fetch sessions."),
    "kafka_server_followerreplication_byte_total": (COUNTER, "Bytes of throttled replicas that this broker copied from their leaders."),
    "kafka_server_followerreplication_throttled_total": (COUNTER, "Partitions that were not asked for because the quota was used up."),
    "kafka_server_leaderreplication_byte_total": (COUNTER, "Bytes of throttled replicas that this broker sent to followers."),
    "kafka_server_leaderreplication_throttled_total": (COUNTER, "Partitions that were not sent because the quota was used up."),
    "kafka_server_socket_server_metrics_connection_count": (GAUGE, "Connections of clients and other brokers."),
    "kafka_server_socket_server_metrics_incoming_byte_total": (COUNTER, "Bytes received."),
    # our own
    "millstream_request_seconds": (HISTOGRAM, "Time from a request to its answer; waiting for records or members included."),
    "millstream_sample_age_seconds": (GAUGE, "How old the figures on this page are."),
    "millstream_build_info": (GAUGE, "Always 1; the version is a label."),
}
PROCESS_FAMILIES: Final[dict[str, tuple[str, str]]] = {
    "process_cpu_seconds_total": (COUNTER, "User and system time of the broker."),
    "process_resident_memory_bytes": (GAUGE, "Resident memory of the broker."),
    "process_open_fds": (GAUGE, "File descriptors that the broker has open."),
    "process_max_fds": (GAUGE, "File descriptors that it may open."),
    "process_start_time_seconds": (GAUGE, "When the broker was started."),
}
"""What every Prometheus client says of its process; here of the broker's."""


class Snapshot(NamedTuple):
    """What a page is written of."""

    sample: Sample
    lags: Sequence[PartitionLag]
    times: RecentTimes


_OF_LEADERS: Final[dict[str, Callable[[PartitionSample], int]]] = {
    "kafka_topic_partition_current_offset": lambda row: row.high_watermark,
    "kafka_topic_partition_oldest_offset": lambda row: row.log_start_offset,
    "kafka_topic_partition_leader": lambda row: row.leader,
    "kafka_topic_partition_replicas": lambda row: row.replicas,
    "kafka_topic_partition_in_sync_replica": lambda row: row.in_sync,
    "kafka_topic_partition_under_replicated_partition": lambda row: int(row.in_sync < row.replicas),
    "kafka_topic_partition_leader_is_preferred": lambda row: int(row.leader == row.preferred_leader),
}
_OF_TOPICS: Final[dict[str, Callable[[PartitionSample], int]]] = {
    "kafka_server_brokertopicmetrics_messagesin_total": lambda row: row.messages_in,
    "kafka_server_brokertopicmetrics_bytesin_total": lambda row: row.bytes_in,
    "kafka_server_brokertopicmetrics_bytesout_total": lambda row: row.bytes_out,
    "kafka_server_brokertopicmetrics_totalproducerequests_total": lambda row: row.produce_requests,
    "kafka_server_brokertopicmetrics_totalfetchrequests_total": lambda row: row.fetch_requests,
    "kafka_server_brokertopicmetrics_failedproducerequests_total": lambda row: row.failed_produces,
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": lambda row: row.failed_fetches,
}


def write(snapshot: Snapshot, lines: Lines) -> str:
    """The page, but for what changes with every look at it (`process_families`)."""
    sample, lags, times = snapshot
    return "".join(
        [
            *_partitions(sample, lines),
            *_topics(sample),
            *_replicas(sample),
            *_cluster(sample),
            *_groups(sample),
            *_positions(lags, lines),
            *_seconds(lags, sample.broker.cluster_id, lines),
            *_requests(sample, times),
        ]
    )


def _family(name: str, series: Series) -> str:
    return family(name, *FAMILIES[name], series)


def _partitions(sample: Sample, lines: Lines) -> Iterator[str]:
    rows = sample.led
    own = lines.labels("led", [row[:2] for row in rows], _partition_labels)
    for name, value in _OF_LEADERS.items():
        yield lines.family(name, *FAMILIES[name], own, map(str, map(value, rows)))
    replicas = lines.labels("kept", [row[:2] for row in sample.partitions], _partition_labels)
    name = "kafka_log_log_size"
    yield lines.family(name, *FAMILIES[name], replicas, [str(row.size_bytes) for row in sample.partitions])


def _partition_labels(place: tuple[str, int]) -> str:
    return labels(topic=place[0], partition=place[1])


def _topics(sample: Sample) -> Iterator[str]:
    by_topic: dict[str, list[PartitionSample]] = {}
    for row in (*sample.partitions, *sample.ended):
        by_topic.setdefault(row.topic, []).append(row)
    rows = [(labels(topic=topic), own) for topic, own in by_topic.items()]
    for name, value in _OF_TOPICS.items():
        yield _family(name, [(label, sum(map(value, own))) for label, own in rows])
    yield _family("kafka_topic_partitions", [(labels(topic=topic), count) for topic, count in sample.broker.topics.items()])


def _replicas(sample: Sample) -> Iterator[str]:
    prefix = "kafka_server_replicamanager_"
    brokers = [(label, part, part.led) for label, part in _by_broker(sample)]
    yield _family(prefix + "leadercount", [(label, len(led)) for label, _, led in brokers])
    yield _family(prefix + "partitioncount", [(label, len(part.partitions)) for label, part, _ in brokers])
    # As in Kafka: a replica that a reassignment adds is not missing yet.
    under = [(label, sum(row.in_sync < row.replicas - row.adding for row in led)) for label, _, led in brokers]
    yield _family(prefix + "underreplicatedpartitions", under)
    under = [(label, sum(row.in_sync < row.min_in_sync for row in led)) for label, _, led in brokers]
    yield _family(prefix + "underminisrpartitioncount", under)
    yield _family(prefix + "reassigningpartitions", [(label, sum(row.is_reassigning for row in led)) for label, _, led in brokers])


def _by_broker(sample: Sample) -> list[tuple[str, Sample]]:
    """Each broker's own sample, and the label of its figures: none where it is the only one of the page."""
    return [(broker_label(part.broker.node_id), part) for part in sample.parts] or [("", sample)]


def broker_label(node_id: int) -> str:
    """The label of what is about one of several brokers of a page."""
    return labels(broker=node_id)


def _cluster(sample: Sample) -> Iterator[str]:
    broker = sample.broker
    if broker.is_controller:
        yield _family("kafka_brokers", [("", broker.brokers)])
    yield _family("kafka_controller_kafkacontroller_offlinepartitionscount", [("", broker.offline_partitions)])
    series: dict[str, list[tuple[str, int]]] = {}
    for label, part in _by_broker(sample):
        for name, value in part.broker.values.items():
            series.setdefault(name, []).append((label, value))
    for name, values in series.items():
        yield _family(strimzi_name(name), values)


def _groups(sample: Sample) -> Iterator[str]:
    yield _family("kafka_consumergroup_members", [(labels(consumergroup=row.group), row.members) for row in sample.groups])


def _positions(lags: Sequence[PartitionLag], lines: Lines) -> Iterator[str]:
    own = lines.labels("positions", [lag[:2] for lag in lags], _position_labels)
    name = "kafka_consumergroup_current_offset"
    yield lines.family(name, *FAMILIES[name], own, [str(lag.committed) for lag in lags])
    known = [lag for lag in lags if lag.messages is not None]
    if len(known) < len(lags):
        own = lines.labels("lags", [lag[:2] for lag in known], _position_labels)
    name = "kafka_consumergroup_lag"
    yield lines.family(name, *FAMILIES[name], own, [str(lag.messages) for lag in known])
    sums: dict[tuple[str, str], int] = {}
    for lag in known:
        key = lag.group, lag.place.topic
        sums[key] = sums.get(key, 0) + (lag.messages or 0)
    yield _family("kafka_consumergroup_lag_sum", [(labels(consumergroup=group, topic=topic), lag) for (group, topic), lag in sums.items()])


def _position_labels(position: tuple[str, TopicPartition]) -> str:
    group, place = position
    return labels(consumergroup=group, topic=place.topic, partition=place.partition)


def _seconds(lags: Sequence[PartitionLag], cluster: str, lines: Lines) -> Iterator[str]:
    known = [(lag, round(lag.seconds, 3)) for lag in lags if lag.seconds is not None]

    def write_labels(position: tuple[str, TopicPartition]) -> str:
        group, place = position
        return labels(cluster_name=cluster, group=group, topic=place.topic, partition=place.partition)

    own = lines.labels("seconds", [lag[:2] for lag, _ in known], write_labels)
    name = "kafka_consumergroup_group_lag_seconds"
    yield lines.family(name, *FAMILIES[name], own, [number(seconds) for _, seconds in known])
    largest: dict[str, float] = {}
    for lag, seconds in known:
        largest[lag.group] = max(largest.get(lag.group, 0.0), seconds)
    series = [(labels(cluster_name=cluster, group=group), seconds) for group, seconds in largest.items()]
    yield _family("kafka_consumergroup_group_max_lag_seconds", series)


def _requests(sample: Sample, times: RecentTimes) -> Iterator[str]:
    histogram: list[tuple[str, float]] = []
    summary: list[tuple[str, float]] = [
        (labels(request=request, quantile=quantile), round(value, 3)) for request, quantile, value in times.quantiles_ms()
    ]
    for request, buckets in sample.broker.requests.items():
        label, count, total_us = labels(request=request), sum(buckets[:-1]), buckets[-1]
        histogram += [("_bucket" + labels(request=request, le=f"{bound:.6f}".rstrip("0")), below) for bound, below in cumulative(buckets)]
        histogram += [("_bucket" + labels(request=request, le="+Inf"), count), (f"_sum{label}", total_us / 1e6), (f"_count{label}", count)]
        summary += [(f"_sum{label}", total_us / 1e3), (f"_count{label}", count)]
    yield _family("millstream_request_seconds", histogram)
    yield _family("kafka_network_requestmetrics_totaltimems", summary)


def strimzi_name(jmx: str) -> str:
    """`kafka.server:type=ReplicaManager,name=LeaderCount` as Strimzi's rules for Prometheus write it."""
    domain, _, properties = jmx.partition(":")
    words = [domain, *(each.partition("=")[2] for each in properties.split(","))]
    return "_".join(words).lower().replace(".", "_").replace("-", "_")
