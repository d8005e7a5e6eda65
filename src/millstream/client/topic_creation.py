"""A topic that a part of Millstream needs for itself: found, or created by whoever comes first."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from millstream.client.cluster import Cluster
from millstream.client.errors import kafka_error
from millstream.client.metadata import TopicMetadata
from millstream.client.request import MessageRequest
from millstream.client.retry import retry
from millstream.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.create_topics import CreateTopicsResponse

MOST_REPLICAS: Final = 3
_TIMEOUT_MS: Final = 5_000
_APPEARS_S: Final = 5.0


def find_or_create(cluster: Cluster, name: str, *, partitions: int, configs: Mapping[str, str]) -> TopicMetadata:
    """The topic, created if it is missing, with three replicas where there are so many brokers."""
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


def own_replicas(broker_count: int) -> int:
    """How many replicas such a topic has on so many brokers."""
    return max(min(MOST_REPLICAS, broker_count), 1)


def _create(cluster: Cluster, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    replicas = own_replicas(len(cluster.metadata.brokers))
    [answer] = cluster.call(creation_request(name, partitions=partitions, replicas=replicas, configs=configs)).topics
    code = int(answer.error_code)
    if code and code != TopicAlreadyExists.code:
        advice = f"create it with `millstream topic create {name} --partitions {partitions}`"
        raise kafka_error(code, f"the topic {name} is missing and could not be created ({answer.error_message or code}): {advice}")
