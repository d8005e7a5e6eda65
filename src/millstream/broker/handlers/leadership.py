"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46): who leads a partition and who keeps it.

ElectLeaders 0-2. 1: kind of election (KIP-460), an error of its own for the whole. AlterPartitionReassignments 0-1 (KIP-455). 1: whether
the number of replicas may change. ListPartitionReassignments 0.

All of it is decided by the controller; another broker refuses (requests are forwarded before they come here). A reassignment is answered
when it has begun; ListPartitionReassignments says what is under way (`cluster.reassignment`). Both may be about thousands of partitions:
their answers are put together in turns of the loop (`loop_turns`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from millstream.broker.cluster.active_controller import ActiveController
from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Forwarding, Later, Reply, Request, api
from millstream.broker.storage.loop_turns import TaskTurns, in_turns
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import InvalidRequest, KafkaError, RequestTimedOut
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.last_array import framed_with_elements, with_elements
from millstream.wire.message_writer import message_writer
from millstream.wire.schema import schema_at

if TYPE_CHECKING:
    from millstream.wire.requests.alter_partition_reassignments import AlterPartitionReassignmentsRequest
    from millstream.wire.requests.elect_leaders import ElectLeadersRequest
    from millstream.wire.requests.list_partition_reassignments import ListPartitionReassignmentsRequest

PREFERRED = 0
UNCLEAN = 1


class LeadershipFamily:
    """Asks the controller of this broker."""

    def __init__(self, view: Callable[[], ClusterView], active: ActiveController) -> None:
        self._view = view
        self._active = active

    @api(ApiKey.ELECT_LEADERS, 0, 2, forwarding=Forwarding.WHOLE)
    def elect_leaders(self, request: Request) -> Later:
        """Elect the preferred leader of each partition, or any at all; or say why not."""
        return self._elect_leaders(request.decode())

    async def _elect_leaders(self, message: "ElectLeadersRequest") -> Fields:
        kind = message.election_type
        if kind not in (PREFERRED, UNCLEAN):
            return {"error_code": InvalidRequest.code, "replica_election_results": []}
        asked = self._asked_for(message)
        names = {TopicPartition(topic, index) for topic, indexes in asked for index in indexes}
        try:
            async with asyncio.timeout(max(message.timeout_ms, 1) / 1000):
                answers = await self._active.elect_leaders(names, is_unclean=kind == UNCLEAN)
        except TimeoutError:
            return {"error_code": RequestTimedOut.code, "replica_election_results": []}
        except Exception as error:
            return {"error_code": as_kafka_error(error).code, "replica_election_results": []}
        results = [
            {
                "topic": topic,
                "partition_result": [{"partition_id": index, **_outcome(answers[TopicPartition(topic, index)])} for index in indexes],
            }
            for topic, indexes in asked
        ]
        return {"error_code": 0, "replica_election_results": results}

    def _asked_for(self, message: "ElectLeadersRequest") -> list[tuple[str, list[int]]]:
        if message.topic_partitions is not None:
            return [(topic.topic, list(topic.partitions)) for topic in message.topic_partitions]
        # All partitions: Kafka names every topic, and of its partitions only those for which there was something to do.
        return [
            (name, [index for index, state in enumerate(topic.partitions) if not _is_led(state, message.election_type)])
            for name, topic in self._view().topics.items()
        ]

    @api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, forwarding=Forwarding.WHOLE)
    def alter_partition_reassignments(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """Begin to move partitions to other brokers, or take that back (`replicas` null); or say why not."""
        return self._alter_reassignments(request, request.decode())

    async def _alter_reassignments(self, request: Request, message: "AlterPartitionReassignmentsRequest") -> Reply:
        from millstream.wire.responses.alter_partition_reassignments import REASSIGNABLE_PARTITION_RESPONSE, REASSIGNABLE_TOPIC_RESPONSE

        await asyncio.sleep(0)  # one that names thousands of partitions took a turn to decode
        turns = TaskTurns()
        targets: dict[TopicPartition, Sequence[int] | None] = {}
        for topic in message.topics:
            async for some in in_turns(topic.partitions, turns):
                targets.update((TopicPartition(topic.name, one.partition_index), one.replicas) for one in some)
        fields: dict[str, object] = {"allow_replication_factor_change": message.allow_replication_factor_change, "responses": []}
        try:
            async with asyncio.timeout(max(message.timeout_ms, 1) / 1000):
                answers = await self._active.reassign(targets, may_grow=message.allow_replication_factor_change)
        except Exception as error:
            return {**_failure(error), **fields}
        encode = message_writer(schema_at(REASSIGNABLE_PARTITION_RESPONSE, request.api_version, is_flexible=True))
        encode_topic = message_writer(schema_at(REASSIGNABLE_TOPIC_RESPONSE, request.api_version, is_flexible=True))
        topics: list[bytes] = []
        for topic in message.topics:
            partitions: list[bytes] = []
            async for some in in_turns(topic.partitions, turns):
                partitions += [
                    encode({"partition_index": one.partition_index, **_outcome(answers[TopicPartition(topic.name, one.partition_index)])})
                    for one in some
                ]
            topics.append(with_elements(encode_topic({"name": topic.name, "partitions": []}), partitions))
        return [framed_with_elements(request.encode({**error_fields(None), **fields}), topics)]

    @api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, forwarding=Forwarding.WHOLE)
    def list_partition_reassignments(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """The partitions that are being moved: all, or those of them that are named."""
        return self._list_reassignments(request, request.decode())

    async def _list_reassignments(self, request: Request, message: "ListPartitionReassignmentsRequest") -> Reply:
        from millstream.wire.responses.list_partition_reassignments import (
            ONGOING_PARTITION_REASSIGNMENT,
            ONGOING_TOPIC_REASSIGNMENT,
        )

        try:
            async with asyncio.timeout(max(message.timeout_ms, 1) / 1000):
                found = await self._active.reassignments()
        except Exception as error:
            return {**_failure(error), "topics": []}
        encode = message_writer(schema_at(ONGOING_PARTITION_REASSIGNMENT, request.api_version, is_flexible=True))
        encode_topic = message_writer(schema_at(ONGOING_TOPIC_REASSIGNMENT, request.api_version, is_flexible=True))
        listed: dict[str, list[bytes]] = {}
        async for some in in_turns(sorted(found) if message.topics is None else _named(message)):
            for name in some:
                if name in found:
                    listed.setdefault(name.topic, []).append(encode(_reassignment(name.partition, found[name])))
        topics = [with_elements(encode_topic({"name": name, "partitions": []}), partitions) for name, partitions in listed.items()]
        return [framed_with_elements(request.encode({**error_fields(None), "topics": []}), topics)]


def _outcome(answer: PartitionState | KafkaError) -> dict[str, object]:
    return error_fields(answer if isinstance(answer, KafkaError) else None)


def _failure(error: Exception) -> dict[str, object]:
    """The error of a request as a whole."""
    if isinstance(error, TimeoutError):
        error = RequestTimedOut("the controller did not finish within the time that the request gives; what it began goes on")
    return error_fields(as_kafka_error(error))


def _named(message: "ListPartitionReassignmentsRequest") -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in message.topics or () for index in topic.partition_indexes]


def _reassignment(index: int, state: PartitionState) -> dict[str, object]:
    return {
        "partition_index": index,
        "replicas": state.replicas,
        "adding_replicas": state.adding_replicas,
        "removing_replicas": state.removing_replicas,
    }


def _is_led(state: PartitionState, kind: int) -> bool:
    """Whether the partition has the leader that an election of this kind is for: the preferred one, or any."""
    return state.leader == state.replicas[0] if kind == PREFERRED else state.leader != NO_LEADER
