"""Moving partitions between brokers and electing their leaders, at any Kafka from 2.4 on (KIP-455, KIP-460).

    admin = ReassignmentAdmin(cluster, timeout_s=30)
    admin.alter({TopicPartition("clicks", 0): (2, 3)})     # begin; what was refused comes back with its reason
    admin.under_way()                                      # all that is being moved
    admin.alter({TopicPartition("clicks", 0): None})       # take it back
    admin.elect([TopicPartition("clicks", 0)])             # let the first replica lead

The controller decides; it is asked itself, and found again if it moved.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from millstream.admin_errors import ElectionNotNeeded
from millstream.client.cluster import Cluster
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.client.portions import portions
from millstream.client.retry import may_pass, retry
from millstream.errors import KafkaError, MillstreamError, NotController
from millstream.topic_partition import TopicPartition, by_topic
from millstream.wire.api import ApiKey

T = TypeVar("T")

PREFERRED: Final = 0
UNCLEAN: Final = 1
_AT_ONCE: Final = 500
_LAST_VERSIONS: Final = {ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1, ApiKey.LIST_PARTITION_REASSIGNMENTS: 0, ApiKey.ELECT_LEADERS: 2}


class Reassignment(NamedTuple):
    """A partition that is being moved: all of its replicas for now, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when it is done."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class ReassignmentAdmin:
    """Asks the controller of a cluster; for one thread."""

    def __init__(self, cluster: Cluster, *, timeout_s: float) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s

    def alter(self, targets: Mapping[TopicPartition, Collection[int] | None]) -> dict[TopicPartition, KafkaError]:
        """Give partitions these replicas, or (None) take back what was begun; returns those that were refused."""
        refused: dict[TopicPartition, KafkaError] = {}
        for some in portions(sorted(targets), _AT_ONCE):
            topics = [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": number, "replicas": _listed(targets[TopicPartition(topic, number)])} for number in numbers
                    ],
                }
                for topic, numbers in by_topic(some).items()
            ]
            answer = self._ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"topics": topics}, "the reassignment was refused")
            for topic in answer.responses:
                for one in topic.partitions:
                    if one.error_code:
                        place = TopicPartition(topic.name, one.partition_index)
                        refused[place] = kafka_error(int(one.error_code), one.error_message or "")
        return refused

    def under_way(self) -> dict[TopicPartition, Reassignment]:
        """Every partition that is being moved."""
        answer = self._ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None}, "the reassignments were not listed")
        return {
            TopicPartition(topic.name, one.partition_index): Reassignment(one.replicas, one.adding_replicas, one.removing_replicas)
            for topic in answer.topics
            for one in topic.partitions
        }

    def elect(self, places: Iterable[TopicPartition], *, kind: int = PREFERRED) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders: None where there is a new one, else the reason why not. A partition that had the right one is left out."""
        results: dict[TopicPartition, KafkaError | None] = {}
        for some in portions(sorted(places), _AT_ONCE):
            topics = [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic(some).items()]
            fields = {"election_type": kind, "topic_partitions": topics}
            answer = self._ask(ApiKey.ELECT_LEADERS, fields, "the election was refused", lowest=1 if kind else 0)
            for topic in answer.replica_election_results:
                for one in topic.partition_result:
                    if one.error_code != ElectionNotNeeded.code:
                        error = kafka_error(int(one.error_code), one.error_message or "") if one.error_code else None
                        results[TopicPartition(topic.topic, one.partition_id)] = error
        return results

    def _ask(self, api_key: ApiKey, fields: Mapping[str, object], what: str, *, lowest: int = 0) -> Any:
        request: MessageRequest[Any] = MessageRequest(
            api_key, {**fields, "timeout_ms": int(self._timeout_s * 1000)}, lowest=lowest, highest=_LAST_VERSIONS[api_key]
        )

        def attempt() -> Any:
            answer = self._call(request)
            if answer.error_code:
                message = getattr(answer, "error_message", None)
                raise kafka_error(int(answer.error_code), f"{what}: {message}" if message else what)
            return answer

        return self._retry(attempt)

    def _call(self, request: MessageRequest[Any]) -> Any:
        metadata = self._cluster.refresh([])
        if metadata.controller in metadata.brokers:
            return self._cluster.connection(metadata.controller).call(request, timeout_s=self._timeout_s)
        return self._cluster.call(request)

    def _retry(self, attempt: Callable[[], T]) -> T:
        def passes(error: MillstreamError) -> bool:
            return isinstance(error, NotController) or may_pass(error)

        return retry(attempt, timeout_s=self._timeout_s, may_pass=passes)


def _listed(replicas: Collection[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)
