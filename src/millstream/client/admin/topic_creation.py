"""A topic that a part of Millstream needs for itself: found, or created by whoever comes first.

It has as many replicas as the cluster gives to its own topics (`offsets.topic.replication.factor`), at most three: brokers that share a
machine (`serve --processes`) say one, because copies there protect nothing.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from millstream.client.cluster import Cluster
from millstream.client.codecs.metadata import TopicMetadata
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.client.retry import retry
from millstream.errors import KafkaError, MillstreamError, TopicAlreadyExists, UnknownTopicOrPartition
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.create_topics import CreateTopicsResponse
    from millstream.wire.responses.describe_configs import DescribeConfigsResponse

MOST_REPLICAS: Final = 3
_FACTOR: Final = "offsets.topic.replication.factor"
_BROKER: Final = 4
_TIMEOUT_MS: Final = 5_000
_APPEARS_S: Final = 5.0


def find_or_create(cluster: Cluster, name: str, *, partitions: int, configs: Mapping[str, str]) -> TopicMetadata:
    """The topic, created if it is missing."""
    try:
        return cluster.topic(name)
    except UnknownTopicOrPartition:
        _create(cluster, name, partitions, configs)
    # The other brokers hear of a new topic a little later.
    return retry(lambda: cluster.topic(name), timeout_s=_APPEARS_S, may_pass=lambda error: isinstance(error, KafkaError))


def creation_request(
    name: str, *, partitions: int, replicas: int, configs: Mapping[str, str], timeout_ms: int = _TIMEOUT_MS
) -> "MessageRequest[CreateTopicsResponse]":
    """What asks for one topic."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [{"name": option, "value": value} for option, value in configs.items()],
    }
    return MessageRequest(ApiKey.CREATE_TOPICS, {"topics": [topic], "timeout_ms": timeout_ms, "validate_only": False})


def replicas_request(broker_id: int) -> "MessageRequest[DescribeConfigsResponse]":
    """What asks a broker, and no other than this one, how many replicas the topics of its cluster have."""
    resource = {"resource_type": _BROKER, "resource_name": str(broker_id), "configuration_keys": [_FACTOR]}
    return MessageRequest(ApiKey.DESCRIBE_CONFIGS, {"resources": [resource], "include_synonyms": False, "include_documentation": False})


def own_replicas(broker_count: int, answer: "DescribeConfigsResponse | None") -> int:
    """How many replicas such a topic has on so many brokers; an answer that does not say it, or none, changes nothing."""
    values = [config.value or "" for result in (answer.results if answer is not None else ()) for config in result.configs]
    limits = [int(value) for value in values if value.isdigit()]
    return max(min(MOST_REPLICAS, broker_count, *limits), 1)


def _replicas(cluster: Cluster) -> int:
    brokers = cluster.metadata.brokers
    for broker_id in brokers:
        with suppress(MillstreamError):
            return own_replicas(len(brokers), cluster.connection(broker_id).call(replicas_request(broker_id)))
    return own_replicas(len(brokers), None)


def _create(cluster: Cluster, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    replicas = _replicas(cluster)
    [answer] = cluster.call(creation_request(name, partitions=partitions, replicas=replicas, configs=configs)).topics
    code = int(answer.error_code)
    if code and code != TopicAlreadyExists.code:
        advice = f"create it with `millstream topic create {name} --partitions {partitions}`"
        raise kafka_error(code, f"the topic {name} is missing and could not be created ({answer.error_message or code}): {advice}")
