"""Metadata (3), DescribeTopicPartitions (75), DescribeCluster (60): where everything is.

Metadata 0-13. 0: an empty list means all topics; from 1 on null does. 4: the client says whether topics may be created. 5: offline
replicas. 7: leader epoch. 8-10: authorized operations of the cluster. 10: topic ids. 12: topics asked for by id. 13: top-level error.
DescribeTopicPartitions 0 (KIP-966): eligible leaders, in pages. DescribeCluster 0-2. 1: endpoint type (KIP-919). 2: fenced brokers.

A partition whose leader is not alive is answered with LEADER_NOT_AVAILABLE and no leader, as in Kafka; replicas on brokers that are not
alive are offline (version 0, which cannot say so, leaves them out: REPLICA_NOT_AVAILABLE). While there is no controller any broker that
is alive is named as one: all of them pass on what it is needed for.

A topic that is created because a client asked for it is answered once it is there: clients need not ask again. That goes for the topic of
committed offsets and for that of transactions, too.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from millstream.broker.cluster.topics_on_demand import TopicsOnDemand, WantedTopic
from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.cluster.topic_access import check_creation_on_demand
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.coordination.topic_names import INTERNAL_TOPICS, check_name
from millstream.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    MismatchedEndpointType,
    NotController,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedEndpointType,
)
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.describe_cluster import DescribeClusterRequest
    from millstream.wire.requests.describe_topic_partitions import DescribeTopicPartitionsRequest
    from millstream.wire.requests.metadata import MetadataRequest, MetadataRequestTopic

MAX_PARTITIONS_PER_PAGE = 2000
BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2
CREATION_TIMEOUT_MS = 5_000
_FIRST_BY_ID = 12
_REPLICA_NOT_AVAILABLE = 9
_PASSING = (CoordinatorNotAvailable, NotController, RequestTimedOut)
_TOPIC_OPERATIONS = {"topic_authorized_operations": sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))}
_CLUSTER_OPERATIONS = {"cluster_authorized_operations": sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))}
"""Where there are no ACLs everybody may do all that can be done to a topic or a cluster (KIP-430)."""


class MetadataFamily:
    """Answers from the current view."""

    def __init__(
        self, view: Callable[[], ClusterView], on_demand: TopicsOnDemand, *, create: Mapping[str, Callable[[Request], Awaitable[None]]]
    ) -> None:
        """`create` has, by name, the internal topics that are made because they are asked for, and what makes them."""
        self._view = view
        self._on_demand = on_demand
        self._create_internal = create

    @api(ApiKey.METADATA, 0, 13)
    def metadata(self, request: Request) -> Fields | Later:
        """Brokers, controller and the topics asked for."""
        message: MetadataRequest = request.decode()
        asked = message.topics
        if asked is None or (request.api_version == 0 and not asked):
            view = self._view()
            return self._reply([_describe_topic(topic, view) for topic in view.topics.values()], request, message)
        # Named a thousand times it is still one topic: the answer is not to grow without bound with a small request. Kafka does the same.
        asked = tuple({(topic.name, topic.topic_id): topic for topic in asked}.values())
        if request.api_version < _FIRST_BY_ID and any(_asked_name(topic) is None for topic in asked):
            refused = {"error_code": InvalidRequest.code, "is_internal": False, "partitions": []}
            topics = [refused | {"name": topic.name or "", "topic_id": topic.topic_id} for topic in asked]
            return {"brokers": [], "cluster_id": None, "controller_id": -1, "topics": topics}
        names = [name for name in map(_asked_name, asked) if name is not None and name not in self._view().topics]
        if names and message.allow_auto_topic_creation and self._on_demand.is_automatic:
            return self._create_and_describe(request, message, asked, names)
        return self._reply([self._look_up(topic) for topic in asked], request, message)

    async def _create_and_describe(
        self, request: Request, message: "MetadataRequest", asked: "Sequence[MetadataRequestTopic]", names: Iterable[str]
    ) -> Fields:
        errors: dict[str, KafkaError] = {}
        creatable = []
        for name in dict.fromkeys(names):
            try:
                if name in self._create_internal:
                    await self._create_internal[name](request)
                else:
                    check_creation_on_demand(name)
                    creatable.append(name)
            except Exception as error:
                errors[name] = as_kafka_error(error)
        if creatable:
            errors |= await self._create(request, creatable)
        # What may pass is answered as a topic that is not there yet: that is what clients come back for.
        errors = {name: UnknownTopicOrPartition(str(error)) if isinstance(error, _PASSING) else error for name, error in errors.items()}
        return self._reply([self._look_up(topic, errors.get(topic.name or "")) for topic in asked], request, message)

    async def _create(self, request: Request, names: Sequence[str]) -> dict[str, KafkaError]:
        try:
            return await self._on_demand.create(request, [WantedTopic(name) for name in names], timeout_ms=CREATION_TIMEOUT_MS)
        except Exception as error:
            return dict.fromkeys(names, as_kafka_error(error))

    def _look_up(self, asked: "MetadataRequestTopic", error: KafkaError | None = None) -> dict[str, Any]:
        view = self._view()
        name = _asked_name(asked)
        if name is None:
            topic_id = asked.topic_id or UUID(int=0)
            by_id = view.topics_by_id.get(topic_id)
            if by_id is None:
                return {"error_code": UnknownTopicId.code, "name": None, "topic_id": topic_id, "is_internal": False, "partitions": []}
            return _describe_topic(by_id, view)
        topic = view.topics.get(name)
        return _describe_missing(name, error) if topic is None else _describe_topic(topic, view)

    def _reply(self, topics: list[dict[str, Any]], request: Request, message: "MetadataRequest") -> Fields:
        view = self._view()
        if request.api_version == 0:
            for topic in topics:
                topic["partitions"] = [_without_offline(partition) for partition in topic["partitions"]]
        if message.include_topic_authorized_operations:
            topics = [topic if topic["name"] is None else topic | _TOPIC_OPERATIONS for topic in topics]
        operations = _CLUSTER_OPERATIONS if message.include_cluster_authorized_operations else {}
        brokers = [{"node_id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack} for one in view.brokers.values()]
        return {"brokers": brokers, "cluster_id": view.cluster_id, "controller_id": _controller(view), "topics": topics, **operations}

    @api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
    def describe_topic_partitions(self, request: Request) -> Fields:
        """Topics in the order of their names, a page at a time."""
        message: DescribeTopicPartitionsRequest = request.decode()
        view = self._view()
        asked = [topic.name for topic in message.topics]
        names = sorted(set(asked) or view.topics)
        cursor = message.cursor
        first_partition = 0
        if cursor is not None:
            if asked and (cursor.topic_name not in asked or cursor.partition_index < 0):
                refused: list[Fields] = [
                    {"error_code": InvalidRequest.code, "name": name, "topic_id": None, "partitions": []} for name in asked
                ]
                return {"topics": refused, "next_cursor": None}
            names = [name for name in names if name >= cursor.topic_name]
            first_partition = max(0, cursor.partition_index) if names and names[0] == cursor.topic_name else 0
        return _describe_page(view, names, first_partition, max(1, min(message.response_partition_limit, MAX_PARTITIONS_PER_PAGE)))

    @api(ApiKey.DESCRIBE_CLUSTER, 0, 2)
    def describe_cluster(self, request: Request) -> Fields:
        """The brokers that are alive."""
        message: DescribeClusterRequest = request.decode()
        endpoint_type = message.endpoint_type
        view = self._view()
        if endpoint_type != BROKER_ENDPOINTS:
            refuse = MismatchedEndpointType if endpoint_type == CONTROLLER_ENDPOINTS else UnsupportedEndpointType
            error = refuse(f"only the addresses of brokers (endpoint type 1) can be asked for here, not of type {endpoint_type}")
            return {**error_fields(error), "endpoint_type": BROKER_ENDPOINTS, "cluster_id": "", "brokers": []}
        brokers = [
            {"broker_id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack, "is_fenced": False}
            for one in view.brokers.values()
        ]
        operations = _CLUSTER_OPERATIONS if message.include_cluster_authorized_operations else {}
        return {**error_fields(None), "cluster_id": view.cluster_id, "controller_id": _controller(view), "brokers": brokers, **operations}


def _asked_name(asked: "MetadataRequestTopic") -> str | None:
    """The name that a topic is asked for by; None if it is by id, which counts where both are given."""
    return None if asked.topic_id is not None else asked.name


def _controller(view: ClusterView) -> int:
    return view.controller_id if view.controller_id in view.brokers else next(iter(view.brokers), NO_LEADER)


def _describe_missing(name: str, error: KafkaError | None = None) -> dict[str, Any]:
    code = (error or _why_unknown(name)).code
    return {"error_code": code, "name": name, "topic_id": None, "is_internal": name in INTERNAL_TOPICS, "partitions": []}


def _why_unknown(name: str) -> KafkaError:
    """A name that no topic can have has an error of its own, so that clients do not wait for the topic."""
    try:
        check_name(name)
    except InvalidTopic as error:
        return error
    return UnknownTopicOrPartition()


def _describe_page(view: ClusterView, names: Sequence[str], first_partition: int, limit: int) -> Fields:
    topics: list[dict[str, object]] = []
    for name in names:
        if not limit:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
        topic = view.topics.get(name)
        if topic is None:
            topics.append(_describe_missing(name) | _TOPIC_OPERATIONS)
            first_partition = 0
            continue
        first_partition = min(first_partition, len(topic.partitions))
        end = min(len(topic.partitions), first_partition + limit)
        topics.append(_describe_topic(topic, view, partitions=range(first_partition, end)) | _TOPIC_OPERATIONS)
        if end < len(topic.partitions):
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": end}}
        limit -= end - first_partition
        first_partition = 0
    return {"topics": topics, "next_cursor": None}


def _describe_topic(topic: TopicState, view: ClusterView, *, partitions: Iterable[int] | None = None) -> dict[str, Any]:
    indexes = range(len(topic.partitions)) if partitions is None else partitions
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [_describe_partition(index, topic.partitions[index], view) for index in indexes],
    }


def _describe_partition(index: int, state: PartitionState, view: ClusterView) -> dict[str, object]:
    brokers = view.brokers
    is_led = state.leader in brokers
    return {
        "error_code": 0 if is_led else LeaderNotAvailable.code,
        "partition_index": index,
        "leader_id": state.leader if is_led else NO_LEADER,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.in_sync_replicas,
        "eligible_leader_replicas": state.eligible_leaders,
        "last_known_elr": () if state.last_leader == NO_LEADER else (state.last_leader,),
        "offline_replicas": tuple(replica for replica in state.replicas if replica not in brokers),
    }


def _without_offline(partition: dict[str, Any]) -> dict[str, object]:
    """As version 0 describes a partition: it has no field for replicas that are offline."""
    offline = partition["offline_replicas"]
    if not offline:
        return partition
    alive = {name: tuple(replica for replica in partition[name] if replica not in offline) for name in ("replica_nodes", "isr_nodes")}
    return partition | alive | {"error_code": partition["error_code"] or _REPLICA_NOT_AVAILABLE}
