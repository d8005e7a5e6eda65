"""DescribeLogDirs: what replicas take on the disks of a broker, which answers for those that it has, whether or not it leads them."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from millstream.client.cluster import Cluster
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import BrokerUnavailable
from millstream.client.portions import portions
from millstream.topic_partition import TopicPartition, by_topic
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.describe_log_dirs import DescribeLogDirsResponse

PARTITIONS_PER_REQUEST: Final = 500


def replica_sizes(cluster: Cluster, wanted: Mapping[int, Collection[TopicPartition]]) -> dict[int, dict[TopicPartition, int]]:
    """The bytes of these replicas, by broker; a broker that does not answer, or a replica that it does not have, is left out."""
    answers = describe_log_dirs(cluster, wanted)
    return {broker: {place: size for answer in some for place, size in read_sizes(answer).items()} for broker, some in answers.items()}


def describe_log_dirs(cluster: Cluster, wanted: Mapping[int, Collection[TopicPartition]]) -> "dict[int, list[DescribeLogDirsResponse]]":
    """What brokers answer about these partitions, or (none) about their directories alone; one that does not answer is left out."""
    found = {}
    for broker, places in wanted.items():
        requests = map(log_dirs_request, portions(places, PARTITIONS_PER_REQUEST) if places else ([],))
        with suppress(BrokerUnavailable):
            found[broker] = [cluster.connection(broker).call(request) for request in requests]
    return found


def log_dirs_request(places: Iterable[TopicPartition]) -> "MessageRequest[DescribeLogDirsResponse]":
    """Ask about these partitions."""
    topics = [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic(places).items()]
    return MessageRequest(ApiKey.DESCRIBE_LOG_DIRS, {"topics": topics})


def read_sizes(answer: "DescribeLogDirsResponse") -> dict[TopicPartition, int]:
    """The bytes of each replica; one that is on its way to another disk counts once."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.partition_size
        for directory in answer.results
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }
