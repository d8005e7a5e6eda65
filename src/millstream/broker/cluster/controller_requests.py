"""What other brokers ask of the controller: AlterPartition and BrokerHeartbeat, as messages.

They come over the network (`handlers.controller`) or from this broker itself, which then needs no connection (`carry_out`). Only brokers
that are registered are answered, known by their number and broker epoch.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from millstream.broker.cluster.active_controller import ActiveController, Answers
from millstream.broker.cluster.controller_term import InSyncChange
from millstream.broker.failures import as_kafka_error
from millstream.client.codecs.request import Request
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import KafkaError, MillstreamError, UnknownTopicId
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.frames import read_response_header
from millstream.wire.messages import decode_request, encode_response

if TYPE_CHECKING:
    from millstream.wire.requests.alter_partition import AlterPartitionRequest, PartitionData, TopicData
    from millstream.wire.requests.broker_heartbeat import BrokerHeartbeatRequest

UNKNOWN_EPOCH: Final = -1
SIZE_BYTES: Final = 4
"""The length of a frame stands before it."""


class ControllerRequests:
    """Turns the messages into questions to the controller, and what it says into answers."""

    def __init__(self, active: ActiveController, *, view: Callable[[], ClusterView]) -> None:
        self._active = active
        self._view = view

    async def carry_out(self, request: Request[Any]) -> Any:
        """Answer a request of this broker itself, as if it had come over the network."""
        version = request.versions[1]
        body = b"".join(request.encode(version))
        message = decode_request(request.api_key, version, body=memoryview(body), start=0)
        fields = await (self.heartbeat if request.api_key == ApiKey.BROKER_HEARTBEAT else self.alter_partitions)(message)
        answer = memoryview(encode_response(request.api_key, version, correlation_id=0, reply=fields))[SIZE_BYTES:]
        return request.decode(version, answer[read_response_header(answer, api_key=request.api_key, version=version)[1] :])

    async def heartbeat(self, message: "BrokerHeartbeatRequest") -> Mapping[str, object]:
        """A broker that wants to stop is relieved of what it leads, and then may."""
        try:
            if message.want_shut_down:
                await self._active.relieve(message.broker_id, message.broker_epoch)
            else:
                await self._active.alter_partitions(message.broker_id, message.broker_epoch, {})
        except MillstreamError as error:
            return {"error_code": as_kafka_error(error).code, "is_caught_up": False, "is_fenced": True, "should_shut_down": False}
        return {"error_code": 0, "is_caught_up": True, "is_fenced": False, "should_shut_down": message.want_shut_down}

    async def alter_partitions(self, message: "AlterPartitionRequest") -> Mapping[str, object]:
        """Change in-sync sets; each partition has an answer of its own."""
        by_id = self._view().topics_by_id
        names: dict[UUID | None, str] = {
            asked.topic_id: topic.name for asked in message.topics if asked.topic_id and (topic := by_id.get(asked.topic_id))
        }
        changes = {
            TopicPartition(names[topic.topic_id], partition.partition_index): _change(partition, topic.topic_id)
            for topic in message.topics
            if topic.topic_id in names
            for partition in topic.partitions
        }
        try:
            answers = await self._active.alter_partitions(message.broker_id, message.broker_epoch, changes)
        except MillstreamError as error:
            return {"error_code": as_kafka_error(error).code, "topics": []}
        return {"error_code": 0, "topics": [_topic_answer(topic, names.get(topic.topic_id), answers) for topic in message.topics]}


def _change(asked: "PartitionData", topic_id: UUID | None) -> InSyncChange:
    in_sync = {one.broker_id: one.broker_epoch for one in asked.new_isr_with_epochs} or dict.fromkeys(asked.new_isr, UNKNOWN_EPOCH)
    return InSyncChange(PartitionState((), NO_LEADER, asked.leader_epoch, (), partition_epoch=asked.partition_epoch), in_sync, topic_id)


def _topic_answer(topic: "TopicData", name: str | None, answers: Answers) -> Mapping[str, object]:
    unknown = UnknownTopicId(f"no topic has the id {topic.topic_id}")
    return {
        "topic_id": topic.topic_id,
        "partitions": [
            _partition_answer(one.partition_index, unknown if name is None else answers[TopicPartition(name, one.partition_index)])
            for one in topic.partitions
        ],
    }


def _partition_answer(index: int, answer: PartitionState | KafkaError) -> Mapping[str, object]:
    if isinstance(answer, KafkaError):
        return {"partition_index": index, "error_code": answer.code, "leader_id": 0, "leader_epoch": 0, "partition_epoch": 0}
    return {
        "partition_index": index,
        "error_code": 0,
        "leader_id": answer.leader,
        "leader_epoch": answer.leader_epoch,
        "isr": answer.in_sync_replicas,
        "partition_epoch": answer.partition_epoch,
    }
