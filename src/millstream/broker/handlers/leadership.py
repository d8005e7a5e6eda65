"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46): who leads a partition and who keeps it.

ElectLeaders 0-2. 1: kind of election (KIP-460), an error of its own for the whole. AlterPartitionReassignments 0-1 (KIP-455). 1: whether
the number of replicas may change. ListPartitionReassignments 0.

Leaders are elected by the controller; another broker refuses (requests are forwarded before they come here). A partition stays on the
brokers that it was created on: a reassignment to the present replicas is done at once and any other is refused, and none is ever under way.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from millstream.admin_errors import NoReassignmentInProgress
from millstream.broker.cluster.active_controller import ActiveController
from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Forwarding, Later, Request, api
from millstream.cluster.placement import check_assignment
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import InvalidReplicaAssignment, InvalidRequest, KafkaError, RequestTimedOut, UnknownTopicOrPartition
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.alter_partition_reassignments import AlterPartitionReassignmentsRequest
    from millstream.wire.requests.elect_leaders import ElectLeadersRequest

PREFERRED = 0
UNCLEAN = 1


class LeadershipFamily:
    """Asks the controller of this broker for leaders; what is about replicas is answered from the current view."""

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
    def alter_partition_reassignments(self, request: Request) -> Fields:
        """Accept the replicas that a partition has, refuse all others."""
        message: AlterPartitionReassignmentsRequest = request.decode()
        responses = []
        for topic in message.topics:
            partitions = [
                {"partition_index": one.partition_index, **self._reassignment(topic.name, one.partition_index, one.replicas)}
                for one in topic.partitions
            ]
            responses.append({"name": topic.name, "partitions": partitions})
        may_change = message.allow_replication_factor_change
        return {**error_fields(None), "allow_replication_factor_change": may_change, "responses": responses}

    def _reassignment(self, topic: str, index: int, replicas: Sequence[int] | None) -> dict[str, object]:
        try:
            state = self._partition(topic, index)
            if replicas is None:
                raise NoReassignmentInProgress(f"{topic}-{index} is not being moved")
            check_assignment({index: replicas}, list(self._view().brokers), first_partition=index)
            if tuple(replicas) != state.replicas:
                raise InvalidReplicaAssignment(f"{topic}-{index} stays on {list(state.replicas)}: partitions cannot be moved yet")
        except Exception as error:
            return error_fields(as_kafka_error(error))
        return error_fields(None)

    @api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, forwarding=Forwarding.WHOLE)
    def list_partition_reassignments(self, request: Request) -> Fields:
        """None: no partition is ever being moved."""
        request.decode()
        return {**error_fields(None), "topics": []}

    def _partition(self, topic: str, index: int) -> PartitionState:
        found = self._view().topics.get(topic)
        if found is None:
            raise UnknownTopicOrPartition(f"topic {topic!r} does not exist")
        if not 0 <= index < len(found.partitions):
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {index}")
        return found.partitions[index]


def _outcome(answer: PartitionState | KafkaError) -> dict[str, object]:
    return error_fields(answer if isinstance(answer, KafkaError) else None)


def _is_led(state: PartitionState, kind: int) -> bool:
    """Whether the partition has the leader that an election of this kind is for: the preferred one, or any."""
    return state.leader == state.replicas[0] if kind == PREFERRED else state.leader != NO_LEADER
